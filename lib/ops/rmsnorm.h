// RMSNorm (Zhang and Sennrich, 2019), with and without the residual addition that comes before it.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct RmsNormForward {
  View x;         // [N, C]
  View w;         // [C]
  View residual;  // [N, C] optional: added to x first
  View sum;       // [N, C] where residual is given: x + residual, rounded; it is what gets normalised
  View y;         // [N, C]: x / sqrt(mean(x²) + eps) · w
  View rstd;      // f32 [N]: 1 / sqrt(mean(x²) + eps)
  float eps = 1e-5f;
};

struct RmsNormBackward {
  View dy;                  // [N, C]
  View x;                   // [N, C]: what was normalised (the forward's sum where there was a residual)
  View w;                   // [C]
  View rstd;                // f32 [N], from the forward
  View d_sum;               // [N, C] optional: the residual stream's own gradient, added to dx
  View dx;                  // [N, C]; may be d_sum's memory
  View dw;                  // f32 [C]
  View partials;            // f32 [256, C] scratch
  bool accumulate = false;  // dw += instead of dw =
};

extern const Op<RmsNormForward> rmsnorm_forward;
extern const Op<RmsNormBackward> rmsnorm_backward;

// The implementations, registered in rmsnorm.cpp.
void rmsnorm_forward_reference(Ref& r);
void rmsnorm_backward_reference(Ref& r);
void rmsnorm_forward_cpu(CpuDevice& device, const RmsNormForward& a);
void rmsnorm_backward_cpu(CpuDevice& device, const RmsNormBackward& a);
std::function<void()> rmsnorm_forward_cuda(CudaDevice& device, const RmsNormForward& a);
std::function<void()> rmsnorm_backward_cuda(CudaDevice& device, const RmsNormBackward& a);

}  // namespace tang
