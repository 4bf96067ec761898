// Parameters of the attention kernels (attention_simt, attention_simple, attention_mma). Causal,
// grouped-query: query head h reads KV head h / (H / Hkv). Element (b, t, h, d) of a tensor lies at base +
// b·batch + t·row + h·head + d.
#pragma once

#include "types.h"

struct AttentionStrides {
  int64_t batch, row, head;  // elements
};

struct AttentionForwardParams {
  const void* q;  // [B, T, H, D]
  const void* k;  // [B, T, Hkv, D]
  const void* v;  // [B, T, Hkv, D]
  void* o;        // [B, T, H, D]
  float* lse;     // [B, H, T] packed: natural log of the sum of exp(scale · q·k) over visible keys
  AttentionStrides q_strides, k_strides, v_strides, o_strides;
  int32_t batch, length, heads, kv_heads, head_dim;
  float scale;
};

struct AttentionBackwardParams {
  const void* q;     // [B, T, H, D]
  const void* k;     // [B, T, Hkv, D]
  const void* v;     // [B, T, Hkv, D]
  const void* o;     // [B, T, H, D]
  const void* d_o;   // [B, T, H, D]: gradient of o
  const float* lse;  // [B, H, T] packed
  float* delta;      // [B, H, T] packed scratch: Σ_d o · d_o, written by the first kernel of the pass
  void* dq;          // [B, T, H, D]
  void* dk;          // [B, T, Hkv, D]: summed over the group's query heads
  void* dv;          // [B, T, Hkv, D]
  AttentionStrides q_strides, k_strides, v_strides, o_strides, do_strides, dq_strides, dk_strides, dv_strides;
  int32_t batch, length, heads, kv_heads, head_dim;
  float scale;
};
