// Sum over one axis of any shape, in a fixed order.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct ReduceSum {
  View x;                   // [O, R, I]: outer, reduced and inner extents; R = 0 gives zeros
  View y;                   // [O, I], in the mode's dtype or f32
  View partials;            // f32 scratch [O, chunks, I] where R takes several chunks
  bool accumulate = false;  // y += instead of y =
};

extern const Op<ReduceSum> reduce_sum;

// The implementations, registered in reduce.cpp.
void reduce_sum_reference(Ref& r);
void reduce_sum_cpu(CpuDevice& device, const ReduceSum& a);
std::function<void()> reduce_sum_cuda(CudaDevice& device, const ReduceSum& a);

/// The last step of many ops: y[c] = (y[c] +) partials[0, c] + partials[1, c] + …, f32, in a fixed order.
std::function<void()> fold_partials_cuda(CudaDevice& device, const View& partials, const View& y,
                                         bool accumulate);

}  // namespace tang
