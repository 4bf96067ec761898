// Rotary position embedding, forward and backward, in place or not. The tables are read once for several
// heads: they would otherwise cost more cache traffic than the data.
#include "rope.h"

#include "groups.cuh"

#ifndef TANG_START
#define TANG_START 0  // 1: every sequence has a position of its own
#endif

namespace {

constexpr int piece_width = vector_rows ? group_width : 1;
constexpr int heads_each = 4;  // rope_heads_each in lib/ops/rope_cuda.cpp

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

/// Pieces at `at` and `at` + half of heads chunk, chunk + head_chunks, …: all read before any is written.
__device__ __forceinline__ void rotate(const RopeParams& p, const data_t* x, data_t* y, int64_t position,
                                       int chunk, int at) {
  float cosine[piece_width], sine[piece_width];
  load_table(cosine, p.cos + position * p.cos_row + at);
  load_table(sine, p.sin + position * p.sin_row + at);
  float low[heads_each][piece_width], high[heads_each][piece_width];
#pragma unroll
  for (int i = 0; i < heads_each; ++i) {
    const int head = chunk + i * p.head_chunks;
    if (head < p.heads) {
      load_piece(low[i], x + head * p.x_strides.head + at);
      load_piece(high[i], x + head * p.x_strides.head + at + p.half);
    }
  }
#pragma unroll
  for (int i = 0; i < heads_each; ++i) {
    const int head = chunk + i * p.head_chunks;
    if (head < p.heads) {
#pragma unroll
      for (int j = 0; j < piece_width; ++j) {
        const float a = low[i][j], b = high[i][j], s = sine[j] * p.sin_sign;
        low[i][j] = fmaf(a, cosine[j], -(b * s));
        high[i][j] = fmaf(b, cosine[j], a * s);
      }
      store_piece(y + head * p.y_strides.head + at, low[i]);
      store_piece(y + head * p.y_strides.head + at + p.half, high[i]);
    }
  }
}

__device__ __forceinline__ void pass_through(const RopeParams& p, const data_t* x, data_t* y, int chunk,
                                             int at) {
#pragma unroll
  for (int i = 0; i < heads_each; ++i) {
    const int head = chunk + i * p.head_chunks;
    if (head < p.heads) {
      float values[piece_width];
      load_piece(values, x + head * p.x_strides.head + at);
      store_piece(y + head * p.y_strides.head + at, values);
    }
  }
}

}  // namespace

TANG_KERNEL rope(const RopeParams p) {
  const uint32_t per_chunk = p.pieces + p.rest_pieces, per_token = per_chunk * p.head_chunks;
  for (uint32_t i = threadIdx.x; i < per_token * p.tokens_per_block; i += blockDim.x) {
    const uint32_t local_token = i / per_token, within = i - local_token * per_token;
    const int64_t token = static_cast<int64_t>(blockIdx.x) * p.tokens_per_block + local_token;
    if (token >= p.batch * p.length) break;
    const int64_t b = token / p.length, t = token - b * p.length;
    const int chunk = within / per_chunk, piece = within - chunk * per_chunk;
    const data_t* x = row_at<data_t>(p.x, b * p.x_strides.batch + t * p.x_strides.row);
    data_t* y = row_at<data_t>(p.y, b * p.y_strides.batch + t * p.y_strides.row);
    if (piece < p.pieces) {
      int64_t position = p.position + t;
      if constexpr (TANG_START != 0) position = min(position + p.start[b], p.positions - 1);
      rotate(p, x, y, position, chunk, piece * piece_width);
    } else {
      pass_through(p, x, y, chunk, 2 * p.half + (piece - p.pieces) * piece_width);
    }
  }
}
