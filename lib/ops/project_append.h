// What stands before a decoding step's attention, in one launch: the norm, the product with the packed q|k|v
// weight, RoPE, and the new keys and values into the cache. matvec and rope_append do the same in two, with
// the same bits.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct ProjectAppend {
  View x;                 // [B, K]: one new position a sequence
  View w;                 // [(H + 2 Hkv) D, K]: rows of q, then k, then v
  View norm;              // [K]: x becomes x / sqrt(mean(x²) + eps) · norm first
  View cos, sin;          // f32 [P, D/2], P >= S: see rope_tables
  View start;             // u32 [B]: the position of a sequence's new row
  View q;                 // [B, H, D], turned
  View k_cache, v_cache;  // [B, S, Hkv, D]: row start[b] is written (k turned), the rest is left alone. No
                          // room is refused on the CPU; on CUDA nothing is written past S
  float eps = 1e-5f;
};

extern const Op<ProjectAppend> project_append;

// The implementations, registered in project_append.cpp.
void project_append_reference(Ref& r);
void project_append_cpu(CpuDevice& device, const ProjectAppend& a);
std::function<void()> project_append_cuda(CudaDevice& device, const ProjectAppend& a);
std::string project_append_cuda_supports(const DeviceCaps& caps, const ProjectAppend& a);

}  // namespace tang
