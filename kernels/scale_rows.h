// What a matrix product without terms (k = 0) leaves: C = beta · C.
#pragma once

#include "types.h"

struct ScaleRowsParams {
  void* c;  // TANG_T [rows, columns], rows `stride` elements apart
  int64_t rows, columns, stride;
  float beta;  // 0: C is not read
};
