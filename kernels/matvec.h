// Parameters of matvec.cu. Rows lie `…_row` elements apart.
#pragma once

#include "types.h"

struct MatvecParams {
  const void* x;         // [B, K]
  const void* w;         // [N, K]
  const void* norm;      // [K] or null
  const void* gate;      // [B, K] or null
  const void* residual;  // [B, N] or null; may be y
  void* y;               // [B, N]
  int64_t x_row, w_row, gate_row, residual_row, y_row;
  int64_t rows, length;  // N, K
  int64_t groups;        // of a row of x: K in whole groups
  float eps;
};
