// Attention of new queries over a key-value cache, and the cache's upkeep. Query i of sequence b stands at
// position start[b] + i and sees keys 0 … start[b] + i; head h reads KV head h / (H / Hkv). Token-major
// caches [rows, Hkv·D] and heads-major ones [Hkv, rows, D] are the same views with other strides.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct KvAttention {
  View q;           // [B, Q, H, D]: Q >= 1 new queries a sequence
  View k, v;        // [B, S, Hkv, D]: caches of capacity S that already hold the new rows; S >= start[b] + Q
  View start;       // u32 [B]: positions before the first new query (on the device, so that a graph can be
                    // replayed)
  View o;           // [B, Q, H, D]
  View workspace;   // f32 scratch: partial results of the splits over keys
  float scale = 0;  // 0: 1 / sqrt(D)
};

struct CacheAppend {
  View x;      // [B, Q, Hkv, D]: new rows
  View start;  // u32 [B]: where they go
  View cache;  // [B, S, Hkv, D]: rows start[b] … start[b] + Q - 1 are written, the rest is left alone
};

/// The concatenating form: y = old ++ fresh along the rows of every head.
struct CacheConcat {
  View old;    // [Hkv, P, D]; P may be 0
  View fresh;  // [Hkv, Q, D]
  View y;      // [Hkv, P + Q, D]
};

/// Head h of row n: D elements at comp_offset + h · head_stride of a row of W. Covers GPT-2's packed q|k|v
/// rows, GPT-NeoX's per-head rows, re-packing [N, H, D] to [H, N, D] and merging heads, through y's strides.
struct GatherHeads {
  View x;                   // [N, W]
  View y;                   // [H, N, D], any strides of H and N
  int64_t comp_offset = 0;  // of head 0 in a row
  int64_t head_stride = 0;  // between heads in a row
};

extern const Op<KvAttention> kv_attention;
extern const Op<CacheAppend> cache_append;
extern const Op<CacheConcat> cache_concat;
extern const Op<GatherHeads> gather_heads;

}  // namespace tang
