// SwiGLU: one group of 16 bytes a thread. In place is safe: a thread reads what it will overwrite first.
#include "swiglu.h"

#include "groups.cuh"
#include "sigmoid.cuh"

TANG_KERNEL swiglu_forward(const SwigluForwardParams p) {
  const Place place = place_in<group_width>(p.tiles);
  float gate[group_width], up[group_width];
  load_values(gate, row_at<data_t>(p.gate, place.row * p.gate_row), place.at, p.length);
  load_values(up, row_at<data_t>(p.up, place.row * p.up_row), place.at, p.length);
#pragma unroll
  for (int i = 0; i < group_width; ++i) up[i] *= gate[i] * sigmoid(gate[i]);
  store_values(row_at<data_t>(p.y, place.row * p.y_row), place.at, p.length, up);
}

TANG_KERNEL swiglu_backward(const SwigluBackwardParams p) {
  const Place place = place_in<group_width>(p.tiles);
  float dy[group_width], gate[group_width], up[group_width];
  load_values(dy, row_at<data_t>(p.dy, place.row * p.dy_row), place.at, p.length);
  load_values(gate, row_at<data_t>(p.gate, place.row * p.gate_row), place.at, p.length);
  load_values(up, row_at<data_t>(p.up, place.row * p.up_row), place.at, p.length);
#pragma unroll
  for (int i = 0; i < group_width; ++i) {
    const float s = sigmoid(gate[i]), silu = gate[i] * s;
    const float slope = s + silu * (1.0f - s);
    const float output = up[i] * silu;
    gate[i] = dy[i] * up[i] * slope;
    up[i] = dy[i] * silu;
    dy[i] = output;
  }
  store_values(row_at<data_t>(p.d_gate, place.row * p.d_gate_row), place.at, p.length, gate);
  store_values(row_at<data_t>(p.d_up, place.row * p.d_up_row), place.at, p.length, up);
  if (p.y != nullptr) store_values(row_at<data_t>(p.y, place.row * p.y_row), place.at, p.length, dy);
}
