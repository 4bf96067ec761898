// The kernel around a generated expression: one group of 16 bytes a thread, every input loaded before the
// first output is stored, so that in place is safe. lib/ops/traced_cuda.cpp writes a source that includes
// sigmoid.cuh, holds `constexpr int traced_inputs, traced_outputs`, the function
// `traced_values(float (&y)[traced_outputs], const float (&x)[traced_inputs])`, and then includes this.
// TANG_ENTRY is the kernel's name; bit k of TANG_SCALARS is set where input k is one number.
#pragma once

#include "groups.cuh"
#include "traced.h"

#ifndef TANG_SCALARS
#define TANG_SCALARS 0
#endif

TANG_KERNEL TANG_ENTRY(const TracedParams p) {
  const Place place = place_in<group_width>(p.tiles);
  float x[traced_inputs][group_width], y[traced_outputs][group_width];
#pragma unroll
  for (int k = 0; k < traced_inputs; ++k) {
    if ((TANG_SCALARS >> k & 1) != 0) {
      const float value = to_float(*static_cast<const data_t*>(p.x[k]));
#pragma unroll
      for (int i = 0; i < group_width; ++i) x[k][i] = value;
    } else {
      load_values(x[k], row_at<data_t>(p.x[k], place.row * p.x_row[k]), place.at, p.length);
    }
  }
#pragma unroll
  for (int i = 0; i < group_width; ++i) {
    float inputs[traced_inputs], outputs[traced_outputs];
#pragma unroll
    for (int k = 0; k < traced_inputs; ++k) inputs[k] = x[k][i];
    traced_values(outputs, inputs);
#pragma unroll
    for (int k = 0; k < traced_outputs; ++k) y[k][i] = outputs[k];
  }
#pragma unroll
  for (int k = 0; k < traced_outputs; ++k)
    store_values(row_at<data_t>(p.y[k], place.row * p.y_row[k]), place.at, p.length, y[k]);
}
