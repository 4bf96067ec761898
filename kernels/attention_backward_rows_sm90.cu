// What goes before and after the Hopper attention backward: row statistics in, dQ in rows out. Memory-bound.
#include "attention_sm90.h"

#include "common.cuh"

namespace {

constexpr int D = TANG_HEAD_DIM;
constexpr int block = D == 64 ? 128 : 64;  // queries of a dQ tile
constexpr int team = D / 8;                // threads a row, 16 bytes each
constexpr float log2e = 1.4426950408889634f;

/// Eight columns of two rows r and r + 8, as four chunks of one quad hold them.
struct Piece {
  float row[2][8];
};

__device__ __forceinline__ Piece load_chunks(const float4* source, float scale) {
  Piece piece;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const float4 v = source[c];
    piece.row[0][2 * c] = v.x * scale, piece.row[0][2 * c + 1] = v.y * scale;
    piece.row[1][2 * c] = v.z * scale, piece.row[1][2 * c + 1] = v.w * scale;
  }
  return piece;
}

}  // namespace

/// A team a query row: delta = Σ o · d_o, the padded log-sum-exp, and the counters back to zero.
TANG_KERNEL attention_backward_prepare_sm90(const AttentionBackwardPrepareParams p) {
  const int blocks = (p.length + block - 1) / block, rows = blocks * block;
  const int64_t pairs = static_cast<int64_t>(p.batch) * p.heads;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread <= pairs * blocks) p.turns[thread] = 0;
  const int64_t row =
      thread / team;  // the grid covers whole rows, and whole warps hold the same pair or the next
  const int part = threadIdx.x % team;
  if (row >= pairs * rows) return;
  const int64_t pair = row / rows, t = row % rows, batch = pair / p.heads, head = pair % p.heads;
  float sum = 0;
  if (t < p.length) {
    const auto* o = static_cast<const bf16*>(p.o) + batch * p.o_batch + t * p.o_row + head * p.o_head;
    const auto* d_o = static_cast<const bf16*>(p.d_o) + batch * p.do_batch + t * p.do_row + head * p.do_head;
    float left[8], right[8];
    load_vector(left, o + 8 * part);
    load_vector(right, d_o + 8 * part);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += left[i] * right[i];
  }
  const unsigned lanes = ((1u << team) - 1) << (threadIdx.x % 32 / team * team);
#pragma unroll
  for (int offset = team / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(lanes, sum, offset);
  if (part != 0) return;
  p.padded_lse[row] = t < p.length ? p.lse[pair * p.length + t] * log2e : __int_as_float(0x7f800000);
  p.delta[row] = sum;
}

/// Turns dQ sums from accumulator order into rows, scaled, turned back where there are tables, and rounded.
/// One CTA of 256 threads a tile; a thread takes eight columns of each half of a head for two rows.
TANG_KERNEL attention_backward_finish_sm90(const AttentionBackwardFinishParams p) {
  const int blocks = (p.length + block - 1) / block;
  const int64_t tile = blockIdx.x, pair = tile / blocks, batch = pair / p.heads, head = pair % p.heads;
  const float4* sums = reinterpret_cast<const float4*>(p.sums + tile * (block * D));
  // At D = 64 a warpgroup of the backward has 64 rows, at D = 128 a half of the columns of all.
  constexpr int pieces = D / 16;  // of half a head
  const int piece = threadIdx.x % pieces, quad = threadIdx.x / pieces % 8, warp = threadIdx.x / (8 * pieces);
  const float4* source = sums + (warp / 4) * 1024 + piece * 128 + (warp % 4) * 32 + quad * 4;
  Piece low = load_chunks(source, p.scale), high = load_chunks(source + (D == 64 ? 512 : 1024), p.scale);
  const int64_t first = tile % blocks * block + warp * 16 + quad;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t row = first + 8 * r;
    if (row >= p.length) return;
    if (p.cos != nullptr) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float c = p.cos[row * p.cos_row + 8 * piece + i], s = p.sin[row * p.sin_row + 8 * piece + i];
        const float a = low.row[r][i], b = high.row[r][i];
        low.row[r][i] = a * c + b * s;
        high.row[r][i] = b * c - a * s;
      }
    }
    bf16* target = static_cast<bf16*>(p.dq) + batch * p.dq_batch + head * p.dq_head + row * p.dq_row;
    store_vector(target + 8 * piece, low.row[r]);
    store_vector(target + D / 2 + 8 * piece, high.row[r]);
  }
}
