// Heads moved from one layout to another: splitting packed rows, merging heads, appending to a cache. Bits
// are copied as they are. Neighbouring threads take neighbouring pieces of a head, then its token's next
// head.
#include "gather_heads.h"

#include "groups.cuh"

constexpr int piece_width = vector_rows ? group_width : 1;

TANG_KERNEL copy_heads(const CopyHeadsParams p) {
  const uint32_t pieces = p.pieces, per_token = pieces * p.heads;
  for (uint32_t i = threadIdx.x; i < per_token * p.tokens_per_block; i += blockDim.x) {
    const uint32_t local_token = i / per_token, within = i - local_token * per_token;
    const uint32_t head = within / pieces, at = (within - head * pieces) * piece_width;
    const int64_t token = static_cast<int64_t>(blockIdx.x) * p.tokens_per_block + local_token;
    if (token >= p.batch * p.length) break;
    const int64_t b = token / p.length, t = token - b * p.length;
    const int64_t target = t + (p.start != nullptr ? p.start[b] : 0u);
    if (target >= p.capacity) continue;
    const data_t* x =
        row_at<data_t>(p.x, b * p.x_strides.batch + t * p.x_strides.row + head * p.x_strides.head);
    data_t* y =
        row_at<data_t>(p.y, b * p.y_strides.batch + target * p.y_strides.row + head * p.y_strides.head);
    if constexpr (vector_rows) {
      *reinterpret_cast<uint4*>(y + at) = *reinterpret_cast<const uint4*>(x + at);
    } else {
      y[at] = x[at];
    }
  }
}
