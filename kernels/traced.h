// Parameters of traced.cuh, the kernel around a generated expression. Rows of [N, C] tensors lie `…_row`
// elements apart; packed ones come as one row.
#pragma once

#include "types.h"

constexpr int traced_most_inputs = 8, traced_most_outputs = 4;

struct TracedParams {
  const void* x[traced_most_inputs];  // [N, C] each; or [C], whose x_row is 0; or [1]
  int64_t x_row[traced_most_inputs];
  void* y[traced_most_outputs];  // [N, C] each; may be an input's memory
  int64_t y_row[traced_most_outputs];
  int64_t length, tiles;  // of a row; blocks a row
};
