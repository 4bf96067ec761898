// Attention of new queries over a key-value cache, and the cache's upkeep. Query i of sequence b stands at
// position start[b] + i and sees keys 0 … start[b] + i; head h reads KV head h / (H / Hkv). Token-major
// caches [rows, Hkv·D] and heads-major ones [Hkv, rows, D] are the same views with other strides.
#pragma once

#include "lib/ops/op.h"

namespace tang {

/// For decoding and short continuations. Prefill of an empty cache is attention_forward on views of the
/// cache's first rows (k.slice(1, 0, T)): the training kernel, and the training forward's bits.
struct KvAttention {
  View q;           // [B, Q, H, D]: Q >= 1 new queries a sequence
  View k, v;        // [B, S, Hkv, D]: caches of capacity S that already hold the new rows; S >= start[b] + Q
  View start;       // u32 [B]: positions before the first new query (on the device, so that a graph can be
                    // replayed)
  View o;           // [B, Q, H, D]
  View workspace;   // f32 scratch: partial results of the splits over keys
  float scale = 0;  // 0: 1 / sqrt(D)
};

// A start that leaves no room for Q rows is refused on the CPU. On CUDA it is only known on the device: keys
// past S are then not seen, and new rows past S not written.

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
/// Merging [H, N, D] to rows of H·D: x is that memory as rows that overlap (N rows of (H-1)·N·D + D elements,
/// D apart) and head_stride N·D.
struct GatherHeads {
  View x;                   // [N, W]
  View y;                   // [H, N, D], any strides of H and N
  int64_t comp_offset = 0;  // of head 0 in a row
  int64_t head_stride = 0;  // between heads in a row; 0: D
};

extern const Op<KvAttention> kv_attention;
extern const Op<CacheAppend> cache_append;
extern const Op<CacheConcat> cache_concat;
extern const Op<GatherHeads> gather_heads;

/// How the keys of a cache are shared out on CUDA: a function of shapes alone, so that results do not depend
/// on the chip or on run-time positions.
struct KvSplits {
  int64_t rows;        // query rows a CTA serves
  int64_t chunks;      // CTAs that share the query rows of a (batch, KV head)
  int64_t splits;      // of the keys; 1: no second kernel, no workspace
  int64_t split_keys;  // keys in each
  int64_t warps;       // of a CTA
};
KvSplits split_keys(int64_t batch, int64_t queries, int64_t capacity, int64_t heads, int64_t kv_heads,
                    int64_t head_dim);

// The implementations, registered in kv_attention.cpp.
void kv_attention_reference(Ref& r);
void kv_attention_plain(Ref& r);
void kv_attention_cpu(CpuDevice& device, const KvAttention& args);
std::function<void()> kv_attention_cuda(CudaDevice& device, const KvAttention& args);

}  // namespace tang
