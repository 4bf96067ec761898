// The greedy end of a decoding step: the likeliest token of each sequence becomes its next input, one
// position on. Nothing goes through the host, so steps can be queued ahead; a ring keeps what several of them
// chose, each id where its own position says, so that one copy brings them all. A sequence at `last` stays
// there, and from its second step on would overwrite what it chose first: it must not be stepped that far.
// With a table of embeddings the next step's input is embedded at once, which saves its launch.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct NextToken {
  View logits;        // f32 [B, W]
  View ids;           // u32 [B]: the first column with the largest logit; NaN never is, and 0 where all are
  View start;         // u32 [B]: becomes min(start + 1, last)
  View ring;          // optional u32 [B, R]: gets the chosen id at [b, (start + 1) % R], start as it came in
  View table, y;      // optional, both or none: [W, C], and [B, C], which gets the chosen ids' rows
  int64_t vocab = 0;  // columns that count, the rest is padding; 0: all
  int64_t last = 0;   // the last position that a sequence may stand at
};

extern const Op<NextToken> next_token;

// The implementations, registered in next_token.cpp.
void next_token_reference(Ref& r);
void next_token_cpu(CpuDevice& device, const NextToken& a);
std::function<void()> next_token_cuda(CudaDevice& device, const NextToken& a);

}  // namespace tang
