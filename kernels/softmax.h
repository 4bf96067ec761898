// Parameters of softmax.cu. Rows of [N, C] tensors lie `…_row` elements apart.
#pragma once

#include "types.h"

struct SoftmaxForwardParams {
  const void* x;  // [N, C]
  void* y;        // [N, C]; may be x
  int64_t x_row, y_row;
  int64_t rows, columns;
  int32_t causal;  // row n sees columns 0 … n
};

struct SoftmaxBackwardParams {
  const void* dy;  // [N, C]
  const void* y;   // [N, C]
  void* dx;        // [N, C]; may be dy
  int64_t dy_row, y_row, dx_row;
  int64_t rows, columns;
};
