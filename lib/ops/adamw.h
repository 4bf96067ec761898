// AdamW (Loshchilov and Hutter, 2019) over one flat arena, with the clip factor, the learning rate and the
// stop flag read on the device, and the global norm that feeds it.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct GlobalNorm {
  View x;         // f32 [P]
  View norm;      // f32 [1] = sqrt(Σ x²)
  View partials;  // f32 scratch [1024]
};

/// Raises `halted` (never lowers it) when one of `values` is NaN or infinite.
struct FiniteGuard {
  View values;  // f32 [K]: the step's loss, the gradient norm
  View halted;  // u32 [1]: 0 or 1, kept across steps
};

struct AdamW {
  View grad;     // f32 [P]
  View norm;     // f32 [1]: global norm of grad; the factor min(1, clip_norm / norm) scales grad. A norm
                 // that is NaN or infinite makes the whole call leave everything as it is, too
  View control;  // f32 [3]: learning rate, 1 − beta1^t, 1 − beta2^t for step t = 1, 2, …
  View halted;   // u32 [1]: nonzero makes the whole call leave everything as it is
  View master;   // f32 [P]
  View m, v;     // f32 [P]: first and second moment
  View weights;  // [P] optional: master rounded to the mode's dtype, written in the same pass
  int64_t decayed = 0;  // the first `decayed` elements (2-D tensors) get weight decay
  float beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f, weight_decay = 0.1f;
  float clip_norm = 1.0f;  // 0: no clipping
};

extern const Op<GlobalNorm> global_norm;
extern const Op<FiniteGuard> finite_guard;
extern const Op<AdamW> adamw;

void global_norm_reference(Ref& r);
void finite_guard_reference(Ref& r);
void adamw_reference(Ref& r);
void global_norm_cpu(CpuDevice& device, const GlobalNorm& a);
void finite_guard_cpu(CpuDevice& device, const FiniteGuard& a);
void adamw_cpu(CpuDevice& device, const AdamW& a);
std::function<void()> global_norm_cuda(CudaDevice& device, const GlobalNorm& a);
std::function<void()> finite_guard_cuda(CudaDevice& device, const FiniteGuard& a);
std::function<void()> adamw_cuda(CudaDevice& device, const AdamW& a);

}  // namespace tang
