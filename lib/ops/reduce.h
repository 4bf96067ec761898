// Sum over one axis of any shape, in a fixed order.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct ReduceSum {
  View x;                   // [O, R, I]: outer, reduced and inner extents; R = 0 gives zeros
  View y;                   // [O, I], in the mode's dtype or f32
  View partials;            // f32 scratch
  bool accumulate = false;  // y += instead of y =
};

extern const Op<ReduceSum> reduce_sum;

}  // namespace tang
