// Parameters of reduce.cu: x [O, R, I] summed over R in `chunks` chunks of `chunk` entries.
#pragma once

#include "types.h"

struct ReduceParams {
  const void* x;  // [O, R, I]
  void* y;        // [O, chunks, I] partial sums, or [O, I] where there is one chunk
  int64_t x_outer, x_row, y_outer, y_chunk;  // strides in elements
  int64_t outer, reduced, inner;             // O, R, I
  int64_t chunk, chunks;
  int64_t tiles;       // reduce_columns: blocks across I
  int32_t across;      // reduce_columns: threads across a block's columns, a power of two up to 32
  int32_t accumulate;  // y += instead of y =
};
