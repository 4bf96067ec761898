// What moving heads between layouts shares: one kernel and one loop serve gather_heads, cache_append and
// cache_concat.
#pragma once

#include "lib/ops/kv_attention.h"

namespace tang {

/// y[b, start[b] + t, h] = x[b, t, h]; start absent: 0. Rows past y's end are left out.
struct HeadCopy {
  View x;      // [B, T, H, D]
  View y;      // [B, S, H, D]
  View start;  // u32 [B], or absent
};

void copy_heads(CpuDevice& device, const HeadCopy& copy);
std::function<void()> copy_heads(CudaDevice& device, const HeadCopy& copy);

/// What gather_heads asks for, as x [1, N, H, D] and y [1, N, H, D].
HeadCopy head_copy_of(const GatherHeads& args);
/// The two halves of cache_concat.
std::array<HeadCopy, 2> head_copies_of(const CacheConcat& args);

// The implementations, registered in gather_heads.cpp and cache.cpp.
void gather_heads_reference(Ref& r);
void gather_heads_cpu(CpuDevice& device, const GatherHeads& args);
std::function<void()> gather_heads_cuda(CudaDevice& device, const GatherHeads& args);
void cache_append_reference(Ref& r);
void cache_append_cpu(CpuDevice& device, const CacheAppend& args);
std::function<void()> cache_append_cuda(CudaDevice& device, const CacheAppend& args);
void cache_concat_reference(Ref& r);
void cache_concat_cpu(CpuDevice& device, const CacheConcat& args);
std::function<void()> cache_concat_cuda(CudaDevice& device, const CacheConcat& args);

}  // namespace tang
