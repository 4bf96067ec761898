// Parameters of gather_heads.cu. Element (b, t, h, d) of a tensor lies at base + b·batch + t·row + h·head +
// d.
#pragma once

#include "types.h"

struct HeadStrides {
  int64_t batch, row, head;  // elements
};

struct CopyHeadsParams {
  const void* x;          // [B, T, H, D]
  void* y;                // [B, ≥ T, H, D]
  const uint32_t* start;  // [B]: the row of y that t = 0 goes to; null: row 0
  HeadStrides x_strides, y_strides;
  int64_t batch, length, capacity;  // y's rows: copies past them are left out
  int32_t pieces, heads;            // of a head (16 bytes, or one element); of a token
  int32_t tokens_per_block;
};
