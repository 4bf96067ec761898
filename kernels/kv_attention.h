// Parameters of kv_attention.cu. Element (b, t, h, d) of a tensor lies at base + b·batch + t·row + h·head +
// d.
#pragma once

#include "types.h"

struct KvStrides {
  int64_t batch, row, head;  // elements
};

struct KvAttentionParams {
  const void* q;          // [B, Q, H, D]
  const void* k;          // [B, S, Hkv, D]
  const void* v;          // [B, S, Hkv, D]
  const uint32_t* start;  // [B]
  void* o;                // [B, Q, H, D]
  // One partial result for each query row and split, of the splits that the row sees: unused with one split.
  float* partial_o;           // [B, Q, H, splits, D]: Σ weight · v
  float* partial_statistics;  // [B, Q, H, splits, 2]: largest score in units of log 2, Σ weight
  KvStrides q_strides, k_strides, v_strides, o_strides;
  int32_t queries, capacity, heads, kv_heads;
  int32_t splits, split_keys;  // split_keys · splits >= S
  int32_t chunks;              // CTAs that share a KV head's query rows
  float scale_log2;            // scale · log2 e
};
