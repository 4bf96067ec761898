// Cross-entropy of rows of logits, forward and backward in one pass over them.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct CrossEntropy {
  View logits;    // [N, W]: W >= vocab columns, those past vocab are padding: never read, gradient 0
  View targets;   // u32 [N], each below vocab, or pad_id; any other gives a loss of NaN
  View scale;     // f32 [1]: the loss is scale · Σ losses (1 / number of valid targets in the global batch)
  View losses;    // f32 [N]: -log p(target) in nats, unscaled; 0 where the target is pad_id
  View d_logits;  // [N, W] optional: scale · (p − one_hot), 0 where the target is pad_id; may be logits'
                  // memory
  int64_t vocab = 0;    // 0: all W columns
  int64_t pad_id = -1;  // -1: none
};

extern const Op<CrossEntropy> cross_entropy;

void cross_entropy_reference(Ref& r);
void cross_entropy_cpu(CpuDevice& device, const CrossEntropy& a);
std::function<void()> cross_entropy_cuda(CudaDevice& device, const CrossEntropy& a);

/// Columns that take part: `vocab`, or all of them when it is 0.
inline int64_t valid_columns(const CrossEntropy& a) { return a.vocab == 0 ? a.logits.dim(1) : a.vocab; }

}  // namespace tang
