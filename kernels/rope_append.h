// Parameters of rope_append.cu.
#pragma once

#include "rope.h"

struct RopeAppendParams {
  const void* q;          // [B, Q, H, D]
  const void* k;          // [B, Q, Hkv, D]
  const void* v;          // [B, Q, Hkv, D]
  const float* cos;       // [P, D/2]
  const float* sin;       // [P, D/2]
  const uint32_t* start;  // [B]
  void* y;                // [B, Q, H, D]; may be q
  void* k_cache;          // [B, S, Hkv, D]
  void* v_cache;          // [B, S, Hkv, D]
  RopeStrides q_strides, k_strides, v_strides, y_strides, k_cache_strides, v_cache_strides;
  int64_t cos_row, sin_row;
  int32_t rows, capacity;         // Q, S
  int32_t heads, kv_heads, half;  // H, Hkv, D/2
  int32_t tiles;                  // blocks a row
};
