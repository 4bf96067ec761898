// Parameters of next_token.cu.
#pragma once

#include "types.h"

struct NextTokenParams {
  const float* logits;  // [B, W], rows logits_row elements apart
  uint32_t* ids;        // [B]
  uint32_t* start;      // [B]
  uint32_t* ring;       // [B, ring_length], rows ring_row elements apart; or null
  const void* table;    // [W, C], rows table_row bytes apart; or null
  void* y;              // [B, C], rows y_row bytes apart
  int64_t table_row, y_row;
  int64_t y_bytes;  // of a row; 0: there is no y
  int64_t logits_row;
  int64_t ring_row;
  int64_t last;
  uint32_t ring_length;
  int32_t columns;  // that count
};
