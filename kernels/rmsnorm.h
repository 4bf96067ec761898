// Parameters of rmsnorm.cu. Rows of [N, C] tensors lie `…_row` elements apart.
#pragma once

#include "types.h"

struct RmsNormForwardParams {
  const void* x;         // [N, C]
  const void* w;         // [C]
  const void* residual;  // [N, C] or null
  void* sum;             // [N, C] where residual is given
  void* y;               // [N, C]
  float* rstd;           // [N]
  int64_t x_row, residual_row, sum_row, y_row;
  int64_t rows, dim;
  float eps;
};

struct RmsNormBackwardParams {
  const void* dy;     // [N, C]
  const void* x;      // [N, C]
  const void* w;      // [C]
  const float* rstd;  // [N]
  const void* d_sum;  // [N, C] or null
  void* dx;           // [N, C]
  float* partials;    // [gridDim.x, C]: dw of each block's rows
  int64_t dy_row, x_row, d_sum_row, dx_row;
  int64_t rows, dim;
};
