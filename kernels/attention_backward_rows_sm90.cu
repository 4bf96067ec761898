// What goes before and after the Hopper attention backward: row statistics in, dQ in rows out. Memory-bound.
#include "attention_sm90.h"

#include "common.cuh"

namespace {

constexpr int D = 64;
constexpr int block = 128;  // queries of a dQ tile
constexpr float log2e = 1.4426950408889634f;

}  // namespace

/// One warp a query row: delta = Σ o · d_o, the padded log-sum-exp, and the counters back to zero.
TANG_KERNEL attention_backward_prepare_sm90(const AttentionBackwardPrepareParams p) {
  const int blocks = (p.length + block - 1) / block, rows = blocks * block;
  const int64_t pairs = static_cast<int64_t>(p.batch) * p.heads;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread <= pairs * blocks) p.turns[thread] = 0;
  const int64_t row = thread / 32;
  const int lane = threadIdx.x % 32;
  if (row >= pairs * rows) return;
  const int64_t pair = row / rows, t = row % rows, batch = pair / p.heads, head = pair % p.heads;
  if (t >= p.length) {
    if (lane == 0) {
      p.padded_lse[row] = __int_as_float(0x7f800000);
      p.delta[row] = 0;
    }
    return;
  }
  const auto* o = static_cast<const bf16*>(p.o) + batch * p.o_batch + t * p.o_row + head * p.o_head;
  const auto* d_o = static_cast<const bf16*>(p.d_o) + batch * p.do_batch + t * p.do_row + head * p.do_head;
  const uint32_t a = reinterpret_cast<const uint32_t*>(o)[lane],
                 g = reinterpret_cast<const uint32_t*>(d_o)[lane];
  const float sum = warp_sum(low_bf16(a) * low_bf16(g) + high_bf16(a) * high_bf16(g));
  if (lane == 0) {
    p.padded_lse[row] = p.lse[pair * p.length + t] * log2e;
    p.delta[row] = sum;
  }
}

/// Turns dQ sums from accumulator order into rows, scaled and rounded. One CTA of 256 threads a tile.
TANG_KERNEL attention_backward_finish_sm90(const AttentionBackwardFinishParams p) {
  const int blocks = (p.length + block - 1) / block;
  const int64_t tile = blockIdx.x, pair = tile / blocks, batch = pair / p.heads, head = pair % p.heads;
  const int half = threadIdx.x / 128, thread = threadIdx.x % 128;
  const float4* source = reinterpret_cast<const float4*>(p.sums + tile * (block * D)) + half * 1024 + thread;
  const int64_t row = tile % blocks * block + half * 64 + thread / 32 * 16 + (thread % 32) / 4;
  bf16* dq = static_cast<bf16*>(p.dq) + batch * p.dq_batch + head * p.dq_head;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float4 v = source[i * 128];
    const int column = 8 * i + 2 * (thread % 4);
    if (row < p.length) {
      *reinterpret_cast<uint32_t*>(dq + row * p.dq_row + column) = pack_bf16(v.x * p.scale, v.y * p.scale);
    }
    if (row + 8 < p.length) {
      *reinterpret_cast<uint32_t*>(dq + (row + 8) * p.dq_row + column) =
          pack_bf16(v.z * p.scale, v.w * p.scale);
    }
  }
}
