// y = x · wᵀ for few rows of x, as in decoding: one pass over w at the memory's speed. What stands before and
// after the product in a Llama block joins in, so that a step of decoding is few launches: RMSNorm and SwiGLU
// on the way in, the residual addition on the way out, each rounded where the op of its own would store.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct Matvec {
  View x;         // [B, K]
  View w;         // [N, K]
  View norm;      // [K] optional: x becomes x / sqrt(mean(x²) + eps) · norm first
  View gate;      // [B, K] optional: x becomes silu(gate) · x then
  View residual;  // [B, N] optional: added to the product; may be y's memory
  View y;         // [B, N], in the mode's dtype or f32
  float eps = 1e-5f;
};

extern const Op<Matvec> matvec;

/// Rows of x up to which it is the better way on CUDA; the kernel takes no more.
inline constexpr int64_t most_matvec_rows = 8;

// The implementations, registered in matvec.cpp.
void matvec_reference(Ref& r);
void matvec_cpu(CpuDevice& device, const Matvec& a);
std::function<void()> matvec_cuda(CudaDevice& device, const Matvec& a);
std::string matvec_cuda_supports(const DeviceCaps& caps, const Matvec& a);

}  // namespace tang
