// The greedy end of a decoding step: the likeliest token of each sequence becomes its next input, one
// position on. Nothing goes through the host, so steps can be queued ahead.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct NextToken {
  View logits;        // f32 [B, W]
  View ids;           // u32 [B]: the first column with the largest logit; NaN never is, and 0 where all are
  View start;         // u32 [B]: becomes min(start + 1, last)
  int64_t vocab = 0;  // columns that count, the rest is padding; 0: all
  int64_t last = 0;   // the last position that a sequence may stand at
};

extern const Op<NextToken> next_token;

// The implementations, registered in next_token.cpp.
void next_token_reference(Ref& r);
void next_token_cpu(CpuDevice& device, const NextToken& a);
std::function<void()> next_token_cuda(CudaDevice& device, const NextToken& a);

}  // namespace tang
