// Parameters of cross_entropy.cu. Rows lie `…_row` elements apart.
#pragma once

#include "types.h"

struct CrossEntropyParams {
  const void* logits;       // [N, W]
  const uint32_t* targets;  // [N]
  const float* scale;       // [1]
  float* losses;            // [N]
  void* d_logits;           // [N, W] or null; may be logits
  int64_t logits_row, d_logits_row;
  int64_t pad_id;          // -1: none
  int32_t width, vocab;    // columns, and how many of them are not padding
  int32_t cached_vectors;  // 16-byte vectors of a row that fit the block's dynamic shared memory
};
