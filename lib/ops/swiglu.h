// SwiGLU (Shazeer, 2020): y = silu(gate) · up. gate and up may be the halves of one buffer.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct SwigluForward {
  View gate, up;  // [N, F]
  View y;         // [N, F]
};

struct SwigluBackward {
  View dy;            // [N, F]
  View gate, up;      // [N, F]
  View d_gate, d_up;  // [N, F]; may be gate's and up's memory
  View y;             // [N, F], optional: the forward's output again, bit for bit, for who did not keep it
};

extern const Op<SwigluForward> swiglu_forward;
extern const Op<SwigluBackward> swiglu_backward;

// The implementations, registered in swiglu.cpp.
void swiglu_forward_reference(Ref& r);
void swiglu_backward_reference(Ref& r);
void swiglu_forward_cpu(CpuDevice& device, const SwigluForward& a);
void swiglu_backward_cpu(CpuDevice& device, const SwigluBackward& a);
std::function<void()> swiglu_forward_cuda(CudaDevice& device, const SwigluForward& a);
std::function<void()> swiglu_backward_cuda(CudaDevice& device, const SwigluBackward& a);

}  // namespace tang
