// Parameters of matvec.cu. Rows lie `…_row` elements apart.
#pragma once

#include "types.h"

/// Where the rows of a q|k|v product go with TANG_APPEND: element (b, s, h, d) of a cache lies at
/// base + b·batch + s·row + h·head + d.
struct MatvecAppend {
  const float* cos;       // [P, D/2]
  const float* sin;       // [P, D/2]
  const uint32_t* start;  // [B]
  void* k_cache;          // [B, S, Hkv, D]
  void* v_cache;          // [B, S, Hkv, D]
  int64_t cos_row, sin_row;
  int64_t q_head;  // elements between the heads of y, which is q alone
  int64_t k_batch, k_row, k_head, v_batch, v_row, v_head;
  int64_t capacity;  // S
  int32_t heads, kv_heads;
};

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
  MatvecAppend append;
};
