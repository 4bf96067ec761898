// What stands between a decoding step's projection and its attention, in one launch: q and k turned by their
// positions, k and v put into the cache. rope_forward and cache_append do the same in two.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct RopeAppend {
  View q;                 // [B, Q, H, D]
  View k, v;              // [B, Q, Hkv, D]
  View cos, sin;          // f32 [P, D/2], P >= S: see rope_tables
  View start;             // u32 [B]: the position of a sequence's first row
  View y;                 // [B, Q, H, D]: q turned; may be q's memory
  View k_cache, v_cache;  // [B, S, Hkv, D]: rows start[b] … start[b] + Q - 1 are written (k turned), the rest
                          // is left alone. No room is refused on the CPU; on CUDA rows past S are not written
};

extern const Op<RopeAppend> rope_append;

// The implementations, registered in rope_append.cpp.
void rope_append_reference(Ref& r);
void rope_append_cpu(CpuDevice& device, const RopeAppend& a);
std::function<void()> rope_append_cuda(CudaDevice& device, const RopeAppend& a);

}  // namespace tang
