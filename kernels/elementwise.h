// Parameters of elementwise.cu. Rows of [N, C] tensors lie `…_row` elements apart; packed ones come as one
// row.
#pragma once

#include "types.h"

struct ElementwiseParams {
  const void* a;  // [N, C]
  const void* b;  // [N, C], for add
  void* y;        // [N, C]
  int64_t a_row, b_row, y_row;
  int64_t length, tiles;  // of a row; blocks a row
  float value;            // for fill
};

struct TransposeParams {
  const void* x;  // [R, C]
  void* y;        // [C, R]
  int64_t x_row, y_row;
  int64_t rows, columns;  // R, C
  int64_t column_tiles;
};
