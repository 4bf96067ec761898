// Parameters of attention_sm90.cu: tensor maps of five dimensions {64, T, D/64, heads, B}, boxes of 64
// columns.
#pragma once

#include "types.h"

struct alignas(64) AttentionTensorMap {
  unsigned char bytes[128];
};

struct AttentionForwardSm90Params {
  AttentionTensorMap q;  // [B, T, H, D], box M rows, all slabs, the heads of a tile
  AttentionTensorMap k;  // [B, T, Hkv, D], box N rows, all slabs
  AttentionTensorMap v;  // [B, T, Hkv, D], box N rows, all slabs
  AttentionTensorMap o;  // [B, T, H, D], box 64 rows, one slab
  float* lse;            // [B, H, T]
  int32_t batch, length, heads, kv_heads;
  int32_t section;                 // pairs (see Tile) walked together, so that their K and V stay in L2
  float scale_log2, unscale_log2;  // scale · log2 e, and 1 over that
};

// The backward keeps its sums of dQ in f32 tiles of M queries × D, in accumulator order (see the kernels; M
// is 128 at D = 64 and 64 at D = 128), and pads rows to a multiple of M: R = M · ceil(T / M).
struct AttentionBackwardSm90Params {
  AttentionTensorMap q;    // [B, T, H, D], box M rows, all slabs
  AttentionTensorMap d_o;  // [B, T, H, D], box M rows, all slabs
  AttentionTensorMap k;    // [B, T, Hkv, D], box 128 rows, all slabs
  AttentionTensorMap v;    // [B, T, Hkv, D], box 128 rows, all slabs
  AttentionTensorMap dk;   // [B, T, Hkv, D], box 64 rows, one slab
  AttentionTensorMap dv;   // [B, T, Hkv, D], box 64 rows, one slab
  const float* lse;        // [B, H, R]: log-sum-exp · log2 e, +infinity past T
  const float* delta;      // [B, H, R]: Σ_d o · d_o, 0 past T
  float* dq;               // [B, H, R / M][M × D]
  uint32_t* turns;         // [B, H, R / M]: how many key blocks have been added; zero before
  uint32_t* next;          // [1]: the next work item; zero before
  int32_t batch, length, heads, kv_heads;
  int32_t section;  // (batch, KV head) pairs walked together, so that their dQ sums stay in L2
  float scale;
};

struct AttentionBackwardPrepareParams {
  const void* o;                                              // [B, T, H, D]
  const void* d_o;                                            // [B, T, H, D]
  const float* lse;                                           // [B, H, T]
  float* padded_lse;                                          // [B, H, R]
  float* delta;                                               // [B, H, R]
  uint32_t* turns;                                            // [B, H, R / M], and one more: all set to zero
  int64_t o_batch, o_row, o_head, do_batch, do_row, do_head;  // elements
  int32_t batch, length, heads;
};

struct AttentionBackwardFinishParams {
  const float* sums;                  // [B, H, R / M][M × D]
  void* dq;                           // [B, T, H, D]
  int64_t dq_batch, dq_row, dq_head;  // elements
  int32_t batch, length, heads;
  float scale;
};
