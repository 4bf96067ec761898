// Softmax over rows, plain or causal (row r sees columns 0 … r, the rest are exactly 0), and its backward.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct SoftmaxForward {
  View x;  // [N, C]
  View y;  // [N, C]; may be x's memory
  bool causal = false;
};

struct SoftmaxBackward {
  View dy;  // [N, C]
  View y;   // [N, C], from the forward (zeros where causal masked)
  View dx;  // [N, C] = y · (dy − Σ y · dy); may be dy's memory
};

extern const Op<SoftmaxForward> softmax_forward;
extern const Op<SoftmaxBackward> softmax_backward;

// The implementations, registered in softmax.cpp.
void softmax_forward_reference(Ref& r);
void softmax_backward_reference(Ref& r);
void softmax_forward_cpu(CpuDevice& device, const SoftmaxForward& a);
void softmax_backward_cpu(CpuDevice& device, const SoftmaxBackward& a);
std::function<void()> softmax_forward_cuda(CudaDevice& device, const SoftmaxForward& a);
std::function<void()> softmax_backward_cuda(CudaDevice& device, const SoftmaxBackward& a);

}  // namespace tang
