// Token embedding: a row of the table for each id. The backward sums rows in order of position: no atomics.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct EmbeddingForward {
  View ids;  // u32 [N], each below V; an id that is not gives a row of NaN (the loader refuses it earlier, by
             // name)
  View table;  // [V, C]
  View y;      // [N, C]
};

struct EmbeddingBackward {
  View ids;                 // u32 [N]
  View dy;                  // [N, C]
  View d_table;             // f32 [V, C]
  View workspace;           // u32 scratch: the ids sorted by (id, position)
  bool accumulate = false;  // d_table += instead of d_table = (rows without an id become 0)
};

extern const Op<EmbeddingForward> embedding_forward;
extern const Op<EmbeddingBackward> embedding_backward;

}  // namespace tang
