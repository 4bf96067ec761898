// Rotary position embedding, forward and backward, in place or not. A thread turns one piece of one head, in
// a plain grid, which streams fastest; the table is shared by a token's heads through the L1 cache. What
// index arithmetic divides by is a constant: divisions would cost more than the turn.
#include "rope.h"

#include "groups.cuh"

#ifndef TANG_START
#define TANG_START 0  // 1: every sequence has a position of its own
#endif
#ifndef TANG_HEADS
#define TANG_HEADS 16
#endif
#ifndef TANG_HALF
#define TANG_HALF 32  // rotated dims i and i + TANG_HALF are a pair
#endif
#ifndef TANG_REST
#define TANG_REST 0  // dims that pass through
#endif

namespace {

constexpr int piece_width = vector_rows ? group_width : 1;
constexpr int half = TANG_HALF, pieces = half / piece_width;
constexpr uint32_t per_head = pieces + TANG_REST / piece_width, per_token = per_head * TANG_HEADS;

template <int n>
__device__ __forceinline__ void load_piece(float (&values)[n], const data_t* source) {
  if constexpr (n == 1) {
    values[0] = to_float(*source);
  } else {
    unpack(values, load_group(source, 0, n));
  }
}
template <int n>
__device__ __forceinline__ void store_piece(data_t* target, const float (&values)[n]) {
  if constexpr (n == 1) {
    *target = from_float<data_t>(values[0]);
  } else {
    store_group(target, 0, n, pack(values));
  }
}
template <int n>
__device__ __forceinline__ void load_table(float (&values)[n], const float* source) {
  if constexpr (n == 1) {
    values[0] = *source;
  } else {
    load_values(values, source, 0, n);
  }
}

/// Pieces at `at` and `at` + half of one head: both read before either is written.
__device__ __forceinline__ void rotate(const RopeParams& p, const data_t* x, data_t* y, int64_t position,
                                       int at) {
  float cosine[piece_width], sine[piece_width], low[piece_width], high[piece_width];
  load_piece(low, x + at);
  load_piece(high, x + at + half);
  load_table(cosine, p.cos + position * p.cos_row + at);
  load_table(sine, p.sin + position * p.sin_row + at);
#pragma unroll
  for (int j = 0; j < piece_width; ++j) {
    const float a = low[j], b = high[j], s = sine[j] * p.sin_sign;
    low[j] = fmaf(a, cosine[j], -(b * s));
    high[j] = fmaf(b, cosine[j], a * s);
  }
  store_piece(y + at, low);
  store_piece(y + at + half, high);
}

}  // namespace

TANG_KERNEL rope(const RopeParams p) {
  const uint32_t b = blockIdx.x / p.tiles, tile = blockIdx.x - b * p.tiles;
  for (uint32_t i = threadIdx.x; i < per_token * p.tokens_per_block; i += blockDim.x) {
    const uint32_t local_token = i / per_token, within = i % per_token;
    const int64_t t = static_cast<int64_t>(tile) * p.tokens_per_block + local_token;
    if (t >= p.length) break;
    const int head = within / per_head, piece = within % per_head;
    const data_t* x =
        row_at<data_t>(p.x, b * p.x_strides.batch + t * p.x_strides.row + head * p.x_strides.head);
    data_t* y = row_at<data_t>(p.y, b * p.y_strides.batch + t * p.y_strides.row + head * p.y_strides.head);
    if (piece < pieces) {
      int64_t position = p.position + t;
      if constexpr (TANG_START != 0) position = min(position + p.start[b], p.positions - 1);
      rotate(p, x, y, position, piece * piece_width);
    } else {
      const int at = 2 * half + (piece - pieces) * piece_width;
      float values[piece_width];
      load_piece(values, x + at);
      store_piece(y + at, values);
    }
  }
}
