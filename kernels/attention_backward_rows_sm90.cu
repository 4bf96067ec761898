// What goes before and after the Hopper attention backward: row statistics in, dQ in rows out. Memory-bound.
#include "attention_sm90.h"

#include "common.cuh"

namespace {

constexpr int D = TANG_HEAD_DIM;
constexpr int block = D == 64 ? 128 : 64;  // queries of a dQ tile
constexpr int team = D / 8;                // threads a row, 16 bytes each
constexpr float log2e = 1.4426950408889634f;

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

/// Turns dQ sums from accumulator order into rows, scaled and rounded. One CTA of 256 threads a tile; a
/// thread takes the eight columns of one quad's four chunks, which lie side by side, for the rows r and r + 8
/// that they hold.
TANG_KERNEL attention_backward_finish_sm90(const AttentionBackwardFinishParams p) {
  const int blocks = (p.length + block - 1) / block;
  const int64_t tile = blockIdx.x, pair = tile / blocks, batch = pair / p.heads, head = pair % p.heads;
  const float4* sums = reinterpret_cast<const float4*>(p.sums + tile * (block * D));
  bf16* dq = static_cast<bf16*>(p.dq) + batch * p.dq_batch + head * p.dq_head;
#pragma unroll
  for (int unit = threadIdx.x; unit < 512; unit += 256) {
    const int group = unit % 8, quad = unit / 8 % 8, warp = unit / 64;  // warp 0 … 7: two warpgroups of four
    const float4* source = sums + (warp / 4) * 1024 + group * 128 + (warp % 4) * 32 + quad * 4;
    float low[8], high[8];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const float4 v = source[c];
      low[2 * c] = v.x * p.scale, low[2 * c + 1] = v.y * p.scale;
      high[2 * c] = v.z * p.scale, high[2 * c + 1] = v.w * p.scale;
    }
    // The second warpgroup has the lower rows, or the right half of the columns.
    const int64_t row = tile % blocks * block + (D == 64 ? warp : warp % 4) * 16 + quad;
    bf16* target = dq + row * p.dq_row + (D == 64 ? 0 : warp / 4 * 64) + 8 * group;
    if (row < p.length) store_vector(target, low);
    if (row + 8 < p.length) store_vector(target + 8 * p.dq_row, high);
  }
}
