// Cross-entropy of rows of logits, forward and backward in one pass over them.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct CrossEntropy {
  View logits;    // [N, W]: W >= vocab columns, those past vocab are padding: no probability, gradient 0
  View targets;   // u32 [N], each below vocab, or pad_id
  View scale;     // f32 [1]: the loss is scale · Σ losses (1 / number of valid targets in the global batch)
  View losses;    // f32 [N]: -log p(target) in nats, unscaled; 0 where the target is pad_id
  View d_logits;  // [N, W] optional: scale · (p − one_hot), 0 where the target is pad_id; may be logits'
                  // memory
  int64_t vocab = 0;
  int64_t pad_id = -1;  // -1: none
};

extern const Op<CrossEntropy> cross_entropy;

}  // namespace tang
