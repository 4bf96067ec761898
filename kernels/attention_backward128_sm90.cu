// Causal grouped-query attention backward for Hopper, head size 128: five matrix products a step,
// deterministic. A work item is one KV head and 128 of its keys, a step 64 queries of one head of the group.
// dK and dV stay in registers, K and V in shared memory; each of two consumer warpgroups owns 64 keys,
// computes Sᵀ and dPᵀ, whose registers are the A operands of dV and dK, and half of dQ's columns from the
// dSᵀ of both. S runs one step ahead, across items too, so that the tensor cores have work while dQ and an
// item's gradients leave. Two writer warps take turns at adding dQ tiles to memory in a fixed order: query
// block m takes key blocks 0, 1, … m/2, counted in `turns`. Items are claimed in that order, heavy ones
// first, and walk their query blocks from the last down to the diagonal: an item waits only for earlier
// claims, which started where it starts. The same bits every time.
#include "attention_sm90.h"

#include "attention_backward_sm90.cuh"
#include "common.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

namespace {

constexpr int D = 128;
constexpr int queries = 64;                     // a step
constexpr int keys = 128;                       // an item
constexpr uint32_t slab = 64 * 128;             // 8 KiB: 64 rows of 64 columns
constexpr uint32_t q_bytes = 2 * slab;          // Q or dO of a step: two slabs of 64 rows
constexpr uint32_t kv_slab = 2 * slab;          // 128 rows of 64 columns
constexpr uint32_t kv_bytes = 2 * kv_slab;      // K or V of an item
constexpr uint32_t ds_bytes = 2 * slab;         // dSᵀ: one slab of 64 queries, rows are keys
constexpr uint32_t dq_bytes = queries * D * 4;  // 32 KiB: a half of the columns a warpgroup, in accumulator
                                                // order: chunk i of thread t at (i·128 + t)·16
constexpr uint32_t row_bytes = queries * 4;     // log-sum-exp or delta of a step
constexpr float log2e = 1.4426950408889634f;

/// Shared memory by address.
struct Layout {
  uint32_t base;
  __device__ uint32_t k(int b) const { return base + b * kv_bytes; }
  __device__ uint32_t v() const { return base + 2 * kv_bytes; }
  __device__ uint32_t q(int s) const { return base + 3 * kv_bytes + s * q_bytes; }
  __device__ uint32_t d_o(int s) const { return q(2 + s); }
  __device__ uint32_t ds(int s) const { return q(4) + s * ds_bytes; }
  __device__ uint32_t dq() const { return ds(2); }
  __device__ uint32_t lse(int s) const { return dq() + dq_bytes + s * row_bytes; }
  __device__ uint32_t delta(int s) const { return lse(2 + s); }
  __device__ uint32_t barrier(int index) const { return lse(4) + 8 * index; }
  __device__ uint32_t k_full(int b) const { return barrier(b); }
  __device__ uint32_t k_empty(int b) const { return barrier(2 + b); }
  __device__ uint32_t v_full() const { return barrier(4); }
  __device__ uint32_t v_empty() const { return barrier(5); }
  __device__ uint32_t q_full(int s) const { return barrier(6 + s); }
  __device__ uint32_t q_empty(int s) const { return barrier(8 + s); }
  __device__ uint32_t do_full(int s) const { return barrier(10 + s); }
  __device__ uint32_t do_empty(int s) const { return barrier(12 + s); }
  __device__ uint32_t dq_full(int s) const { return barrier(14 + s); }
  __device__ uint32_t dq_empty() const { return barrier(16); }
  __device__ uint32_t item(int b) const { return barrier(18 + 2 * b); }
};

/// Key block by key block over a section of (batch, KV head) pairs, then the next section.
__device__ __forceinline__ BackwardItem item_at(int index, int blocks, int kv_heads, int pairs, int section) {
  if (index >= blocks * pairs) return {-1, 0, 0};
  const int part = index / (section * blocks);
  const int rest = index - part * section * blocks;
  const int width = min(section, pairs - part * section);
  const int pair = part * section + rest % width;
  return {rest / width, pair % kv_heads, pair / kv_heads};
}

/// Calls body(m, h, tile) for every step of an item: its query block, query head, and place among all of dQ's
/// tiles.
template <class Body>
__device__ __forceinline__ void walk(const AttentionBackwardSm90Params& p, const BackwardItem& item,
                                     int tiles, const Body& body) {
  const int first = item.kv_head * (p.heads / p.kv_heads), last = first + p.heads / p.kv_heads;
#pragma unroll 1
  for (int m = tiles - 1; m >= 2 * item.n; --m) {
#pragma unroll 1
    for (int h = first; h < last; ++h) body(m, h, (item.batch * p.heads + h) * tiles + m);
  }
}

/// One thread claims items and feeds K, and each step's Q and log-sum-exp.
__device__ __forceinline__ void load_k_and_q(const AttentionBackwardSm90Params& p, const Layout& at,
                                             int tiles) {
  int step = 0;
  for (int items = 0;; ++items) {
    const int b = items & 1;
    const BackwardItem item =
        item_at(atomicAdd(p.next, 1u), (tiles + 1) / 2, p.kv_heads, p.batch * p.kv_heads, p.section);
    barrier_wait(at.k_empty(b), ((items >> 1) & 1) ^ 1);
    store_item(at.item(b), item);
    if (item.n < 0) {
      barrier_arrive(at.k_full(b));
      return;
    }
    barrier_expect(at.k_full(b), kv_bytes);
    tma_load_5d(at.k(b), &p.k, at.k_full(b), 0, item.n * keys, 0, item.kv_head, item.batch);
    walk(p, item, tiles, [&](int m, int h, int tile) {
      const int s = step & 1;
      barrier_wait(at.q_empty(s), ((step >> 1) & 1) ^ 1);
      barrier_expect(at.q_full(s), q_bytes + row_bytes);
      tma_load_5d(at.q(s), &p.q, at.q_full(s), 0, m * queries, 0, h, item.batch);
      bulk_load(at.lse(s), p.lse + static_cast<int64_t>(tile) * queries, row_bytes, at.q_full(s));
      ++step;
    });
  }
}

/// One thread feeds V, and each step's dO and delta.
__device__ __forceinline__ void load_v_and_do(const AttentionBackwardSm90Params& p, const Layout& at,
                                              int tiles) {
  int step = 0;
  for (int items = 0;; ++items) {
    const int b = items & 1;
    barrier_wait(at.k_full(b), (items >> 1) & 1);
    const BackwardItem item = load_item(at.item(b));
    if (item.n < 0) return;
    barrier_arrive(at.k_empty(b));
    barrier_wait(at.v_empty(), (items & 1) ^ 1);
    barrier_expect(at.v_full(), kv_bytes);
    tma_load_5d(at.v(), &p.v, at.v_full(), 0, item.n * keys, 0, item.kv_head, item.batch);
    walk(p, item, tiles, [&](int m, int h, int tile) {
      const int s = step & 1;
      barrier_wait(at.do_empty(s), ((step >> 1) & 1) ^ 1);
      barrier_expect(at.do_full(s), q_bytes + row_bytes);
      tma_load_5d(at.d_o(s), &p.d_o, at.do_full(s), 0, m * queries, 0, h, item.batch);
      bulk_load(at.delta(s), p.delta + static_cast<int64_t>(tile) * queries, row_bytes, at.do_full(s));
      ++step;
    });
  }
}

/// One thread of each of two warps adds every other finished dQ tile to memory, when its turn has come. The
/// first key block overwrites.
__device__ __forceinline__ void write_dq(const AttentionBackwardSm90Params& p, const Layout& at, int tiles,
                                         int writer) {
  int step = 0;
  for (int items = 0;; ++items) {
    const int b = items & 1;
    barrier_wait(at.k_full(b), (items >> 1) & 1);
    const BackwardItem item = load_item(at.item(b));
    if (item.n < 0) return;
    barrier_arrive(at.k_empty(b));
    walk(p, item, tiles, [&](int, int, int tile) {
      const int s = step++;
      if ((s & 1) != writer) return;
      float* target = p.dq + static_cast<int64_t>(tile) * (queries * D);
      if (item.n > 0) await_turn(p.turns + tile, item.n);
      barrier_wait(at.dq_full(writer), (s >> 1) & 1);
      if (item.n > 0) {
        bulk_add(target, at.dq(), dq_bytes);
      } else {
        bulk_store(target, at.dq(), dq_bytes);
      }
      tma_commit();
      tma_wait_read();
      barrier_arrive(at.dq_empty());
      tma_wait_all();
      pass_turn(p.turns + tile);
    });
  }
}

/// d = A · Bᵀ over 128 columns, both K-major: Sᵀ = K Qᵀ and dPᵀ = V dOᵀ, 64 keys × 64 queries.
__device__ __forceinline__ void issue_outer(float (&d)[32], uint32_t a, uint32_t b) {
  wgmma_hold(d);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    wgmma_k16<0, 0>(d, wgmma_descriptor(a + k / 4 * kv_slab + k % 4 * 32, 0),
                    wgmma_descriptor(b + k / 4 * slab + k % 4 * 32, 0), k > 0);
  }
  wgmma_commit();
}

/// d += A · B over 64 queries, A in registers, B read transposed in place: dV += Pᵀ dO and dK += dSᵀ Q.
__device__ __forceinline__ void issue_inner(float (&d)[64], const uint32_t (&a)[4][4], uint32_t b) {
  wgmma_hold(d);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < queries / 16; ++k) wgmma_k16<1>(d, a[k], wgmma_descriptor(b + k * 2048, slab), 1);
  wgmma_commit();
}

/// s becomes P = exp(scale · s − lse), 0 for keys after the query; `key` counts from the step's first query.
__device__ __forceinline__ void weights(float (&s)[32], uint32_t lse_row, float scale_log2, int key,
                                        bool masked) {
  const int quad = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float2 lse = load_pair(lse_row + (8 * i + 2 * quad) * 4);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      s[4 * i + 2 * r] = exp2_fast(s[4 * i + 2 * r] * scale_log2 - lse.x);
      s[4 * i + 2 * r + 1] = exp2_fast(s[4 * i + 2 * r + 1] * scale_log2 - lse.y);
    }
  }
  if (masked) {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (key + 8 * ((i >> 1) & 1) > 8 * (i >> 2) + 2 * quad + (i & 1)) s[i] = 0;
    }
  }
}

/// dp becomes dS = P · (dp − delta), without the scale.
__device__ __forceinline__ void score_gradients(float (&dp)[32], const float (&weight)[32],
                                                uint32_t delta_row) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float2 delta = load_pair(delta_row + (8 * i + 2 * (threadIdx.x % 4)) * 4);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      dp[4 * i + 2 * r] = weight[4 * i + 2 * r] * (dp[4 * i + 2 * r] - delta.x);
      dp[4 * i + 2 * r + 1] = weight[4 * i + 2 * r + 1] * (dp[4 * i + 2 * r + 1] - delta.y);
    }
  }
}

/// dSᵀ of this warpgroup's 64 keys, for issue_dq.
__device__ __forceinline__ void store_ds(const uint32_t (&packed)[4][4], uint32_t ds, int consumer) {
  const int warp = (threadIdx.x % 128) / 32, lane = threadIdx.x % 32;
  const int row = consumer * 64 + warp * 16 + lane % 16;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    store_matrices(ds + row * 128 + (((2 * k + lane / 16) ^ (row & 7)) << 4), packed[k][0], packed[k][1],
                   packed[k][2], packed[k][3]);
  }
  fence_async_proxy();
}

/// This warpgroup's half of the dQ tile to the staging buffer, once a writer has emptied it.
__device__ __forceinline__ void hand_over_dq(const float (&dq)[32], const Layout& at, int consumer,
                                             int step) {
  barrier_wait(at.dq_empty(), (step & 1) ^ 1);
  stage_dq(dq, at.dq() + consumer * (dq_bytes / 2));
  barrier_arrive(at.dq_full(step & 1));
}

/// 64 rows of a finished gradient through `home` (two slabs, `stride` apart, that nobody else uses) to
/// memory.
__device__ __forceinline__ void store_gradient(const float (&d)[64], float factor, uint32_t home,
                                               uint32_t stride, const void* map, const BackwardItem& item,
                                               int consumer) {
  const int thread = threadIdx.x % 128, lane = thread % 32;
  const int row = thread / 32 * 16 + lane % 16;
#pragma unroll
  for (int j = 0; j < 16; j += 2) {
    const int chunk = j % 8 + lane / 16;
    store_matrices(home + j / 8 * stride + row * 128 + ((chunk ^ (row & 7)) << 4),
                   pack_bf16(d[4 * j] * factor, d[4 * j + 1] * factor),
                   pack_bf16(d[4 * j + 2] * factor, d[4 * j + 3] * factor),
                   pack_bf16(d[4 * j + 4] * factor, d[4 * j + 5] * factor),
                   pack_bf16(d[4 * j + 6] * factor, d[4 * j + 7] * factor));
  }
  fence_async_proxy();
  named_sync(2 + consumer, 128);
  if (thread == 0) {
    for (int c = 0; c < 2; ++c) {
      tma_store_5d(map, home + c * stride, 0, item.n * keys + consumer * 64, c, item.kv_head, item.batch);
    }
    tma_commit();
  }
}

/// A warpgroup's 64 keys of every item of this CTA.
__device__ __forceinline__ void consume(const AttentionBackwardSm90Params& p, const Layout& at, int tiles,
                                        int consumer) {
  const int thread = threadIdx.x % 128;
  const int key = consumer * 64 + thread / 32 * 16 + (thread % 32) / 4;  // this thread also has key + 8
  const float scale_log2 = p.scale * log2e;
  const int group = p.heads / p.kv_heads;
  const uint32_t own = consumer * slab;  // this warpgroup's rows of a slab of K or V
  float s[32], dk[64], dv[64];
  barrier_wait(at.k_full(0), 0);
  BackwardItem item = load_item(at.item(0));
  if (item.n < 0) return;
  barrier_wait(at.q_full(0), 0);
  issue_outer(s, at.k(0) + own, at.q(0));

  int step = 0;
  for (int items = 0; item.n >= 0; ++items) {
    const int b = items & 1, count = group * (tiles - 2 * item.n);
    BackwardItem next = item;
#pragma unroll
    for (int i = 0; i < 64; ++i) dk[i] = dv[i] = 0;
    barrier_wait(at.v_full(), items & 1);
    int left = count;
#pragma unroll 1
    do {
      float dp[32], dq[32];
      uint32_t packed[4][4];
      const int stage = step & 1, parity = (step >> 1) & 1;
      barrier_wait(at.do_full(stage), parity);
      wgmma_wait<0>();
      wgmma_hold(s);
      issue_outer(dp, at.v() + own, at.d_o(stage));
      const int ahead = (left - 1) / group;  // query blocks from the item's first to this one
      weights(s, at.lse(stage), scale_log2, key - ahead * queries, ahead < 2);
      pack(s, packed);
      issue_inner(dv, packed, at.d_o(stage));
      wgmma_wait<1>();
      wgmma_hold(dp);
      if (left == 1) barrier_arrive(at.v_empty());
      score_gradients(dp, s, at.delta(stage));
      if (left == count && items > 0) {  // the last item's gradients leave through dS and its K
        if (thread == 0) tma_wait_read();
        barrier_arrive(at.k_empty(b ^ 1));
        named_sync(1, 256);
      }
      wgmma_wait<0>();  // dV has read its registers and dO
      wgmma_hold(dv);
      barrier_arrive(at.do_empty(stage));
      pack(dp, packed);
      store_ds(packed, at.ds(stage), consumer);
      issue_inner(dk, packed, at.q(stage));
      named_sync(1, 256);  // both halves of dS are there, and both warpgroups have left the other buffer
      if (left == 1) {
        barrier_wait(at.k_full(b ^ 1), ((items + 1) >> 1) & 1);
        next = load_item(at.item(b ^ 1));
      }
      if (next.n >= 0) barrier_wait(at.q_full(stage ^ 1), ((step + 1) >> 1) & 1);
      issue_dq(dq, at.ds(stage), at.k(b) + consumer * kv_slab);
      issue_outer(s, at.k(left == 1 ? b ^ 1 : b) + own, at.q(stage ^ 1));  // after the last: of no use
      wgmma_wait<1>();
      wgmma_hold(dk);
      wgmma_hold(dq);
      barrier_arrive(at.q_empty(stage));
      hand_over_dq(dq, at, consumer, step);
      ++step;
    } while (--left > 0);
    named_sync(1, 256);  // both warpgroups have read dS and K for dQ
    store_gradient(dv, 1.0f, at.ds(consumer), slab, &p.dv, item, consumer);
    store_gradient(dk, p.scale, at.k(b) + own, kv_slab, &p.dk, item, consumer);
    item = next;
  }
  wgmma_wait<0>();
  if (thread == 0) tma_wait_all();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(384, 1)
    attention_backward128_sm90(const __grid_constant__ AttentionBackwardSm90Params p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const Layout at{shared_address(memory)};
  const int tiles = (p.length + queries - 1) / queries;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      barrier_init(at.k_full(i), 1);
      barrier_init(at.k_empty(i), 259);  // every consumer thread, two writers and the loader of V
      barrier_init(at.q_full(i), 1);
      barrier_init(at.q_empty(i), 256);
      barrier_init(at.do_full(i), 1);
      barrier_init(at.do_empty(i), 256);
      barrier_init(at.dq_full(i), 256);
    }
    barrier_init(at.v_full(), 1);
    barrier_init(at.v_empty(), 256);
    barrier_init(at.dq_empty(), 1);
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    lower_registers<24>();
    if (threadIdx.x == 0) load_k_and_q(p, at, tiles);
    if (threadIdx.x == 32) load_v_and_do(p, at, tiles);
    if (threadIdx.x == 64 || threadIdx.x == 96) write_dq(p, at, tiles, threadIdx.x / 32 - 2);
  } else {
    raise_registers<240>();
    consume(p, at, tiles, __shfl_sync(all_lanes, threadIdx.x / 128, 0) - 1);
  }
}
