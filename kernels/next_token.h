// Parameters of next_token.cu.
#pragma once

#include "types.h"

struct NextTokenParams {
  const float* logits;  // [B, W], rows logits_row elements apart
  uint32_t* ids;        // [B]
  uint32_t* start;      // [B]
  int64_t logits_row;
  int64_t last;
  int32_t columns;  // that count
};
