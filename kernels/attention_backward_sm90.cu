// Causal grouped-query attention backward for Hopper, head size 64: five matrix products a step,
// deterministic. A work item is one KV head and 128 of its keys. Its CTA keeps K and V in shared memory and
// dK and dV in registers, and walks the query blocks of every query head of the group from the diagonal on,
// so dK and dV need no reduction. Each of two consumer warpgroups owns 64 keys: it computes Sᵀ and dPᵀ, whose
// registers are the A operands of dV and dK; only dSᵀ goes through shared memory, for dQ. A writer warp adds
// dQ tiles to memory in a fixed order: query block m takes key blocks m, m−1, … 0, counted in `turns`. Items
// are claimed right to left, so an item waits only for earlier claims: no deadlock, hardly a wait, and the
// same bits every time.
#include "attention_sm90.h"

#include "attention_backward_sm90.cuh"
#include "common.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

namespace {

constexpr int D = 64;
constexpr int block = 128;                        // queries a step, keys an item
constexpr uint32_t tile_bytes = block * D * 2;    // 16 KiB, one swizzled slab
constexpr uint32_t ds_bytes = block * block * 2;  // 32 KiB: two slabs of 64 queries, rows are keys
constexpr uint32_t dq_bytes =
    block * D * 4;  // 32 KiB, accumulator order: chunk i of thread t at (i·128 + t)·16
constexpr uint32_t row_bytes = block * 4;  // log-sum-exp or delta of a query block
constexpr float log2e = 1.4426950408889634f;

/// Shared memory by address.
struct Layout {
  uint32_t base;
  __device__ uint32_t k(int b) const { return base + b * tile_bytes; }
  __device__ uint32_t v(int b) const { return base + (2 + b) * tile_bytes; }
  __device__ uint32_t q(int s) const { return base + (4 + s) * tile_bytes; }
  __device__ uint32_t d_o(int s) const { return base + (6 + s) * tile_bytes; }
  __device__ uint32_t ds(int s) const { return base + 8 * tile_bytes + s * ds_bytes; }
  __device__ uint32_t dq() const { return base + 8 * tile_bytes + 2 * ds_bytes; }
  __device__ uint32_t lse(int s) const { return dq() + dq_bytes + s * row_bytes; }
  __device__ uint32_t delta(int s) const { return lse(2) + s * row_bytes; }
  __device__ uint32_t barrier(int index) const { return delta(2) + 8 * index; }
  __device__ uint32_t kv_full(int b) const { return barrier(b); }
  __device__ uint32_t kv_empty(int b) const { return barrier(2 + b); }
  __device__ uint32_t q_full(int s) const { return barrier(4 + s); }
  __device__ uint32_t q_empty(int s) const { return barrier(6 + s); }
  __device__ uint32_t do_full(int s) const { return barrier(8 + s); }
  __device__ uint32_t do_empty(int s) const { return barrier(10 + s); }
  __device__ uint32_t dq_full() const { return barrier(12); }
  __device__ uint32_t dq_empty() const { return barrier(13); }
  __device__ uint32_t item(int b) const { return barrier(14 + 2 * b); }
};

__device__ __forceinline__ BackwardItem item_at(int index, int blocks, int kv_heads, int pairs, int section) {
  if (index >= blocks * pairs) return {-1, 0, 0};
  const int part = index / (section * blocks);
  const int rest = index - part * section * blocks;
  const int width = min(section, pairs - part * section);
  const int pair = part * section + rest % width;
  return {blocks - 1 - rest / width, pair % kv_heads, pair / kv_heads};
}

/// One thread claims items and feeds K, V, and each step's Q, dO, log-sum-exp and delta.
__device__ __forceinline__ void produce(const AttentionBackwardSm90Params& p, const Layout& at, int blocks) {
  const int group = p.heads / p.kv_heads;
  int step = 0;
  for (int items = 0;; ++items) {
    const int b = items & 1;
    const BackwardItem item =
        item_at(atomicAdd(p.next, 1u), blocks, p.kv_heads, p.batch * p.kv_heads, p.section);
    barrier_wait(at.kv_empty(b), ((items >> 1) & 1) ^ 1);
    store_item(at.item(b), item);
    if (item.n < 0) {
      barrier_arrive(at.kv_full(b));
      return;
    }
    barrier_expect(at.kv_full(b), 2 * tile_bytes);
    tma_load_5d(at.k(b), &p.k, at.kv_full(b), 0, item.n * block, 0, item.kv_head, item.batch);
    tma_load_5d(at.v(b), &p.v, at.kv_full(b), 0, item.n * block, 0, item.kv_head, item.batch);
#pragma unroll 1
    for (int h = item.kv_head * group; h < (item.kv_head + 1) * group; ++h) {
      int row = ((item.batch * p.heads + h) * blocks + item.n) * block;
#pragma unroll 1
      for (int m = item.n * block; m < blocks * block; m += block, ++step, row += block) {
        const int s = step & 1;
        barrier_wait(at.q_empty(s), ((step >> 1) & 1) ^ 1);
        barrier_expect(at.q_full(s), tile_bytes + row_bytes);
        tma_load_5d(at.q(s), &p.q, at.q_full(s), 0, m, 0, h, item.batch);
        bulk_load(at.lse(s), p.lse + row, row_bytes, at.q_full(s));
        barrier_wait(at.do_empty(s), ((step >> 1) & 1) ^ 1);
        barrier_expect(at.do_full(s), tile_bytes + row_bytes);
        tma_load_5d(at.d_o(s), &p.d_o, at.do_full(s), 0, m, 0, h, item.batch);
        bulk_load(at.delta(s), p.delta + row, row_bytes, at.do_full(s));
      }
    }
  }
}

/// One thread adds finished dQ tiles to memory, each when its turn has come. The first of a tile overwrites.
__device__ __forceinline__ void write_dq(const AttentionBackwardSm90Params& p, const Layout& at, int blocks) {
  const int group = p.heads / p.kv_heads;
  int step = 0;
  for (int items = 0;; ++items) {
    const int b = items & 1;
    barrier_wait(at.kv_full(b), (items >> 1) & 1);
    const BackwardItem item = load_item(at.item(b));
    if (item.n < 0) return;
#pragma unroll 1
    for (int h = item.kv_head * group; h < (item.kv_head + 1) * group; ++h) {
#pragma unroll 1
      for (int m = item.n; m < blocks; ++m, ++step) {
        const int64_t tile = (static_cast<int64_t>(item.batch) * p.heads + h) * blocks + m;
        float* target = p.dq + tile * (block * D);
        uint32_t* turn = p.turns + tile;
        barrier_wait(at.dq_full(), step & 1);
        if (m == item.n) {
          bulk_store(target, at.dq(), dq_bytes);
        } else {
          await_turn(turn, m - item.n);
          bulk_add(target, at.dq(), dq_bytes);
        }
        tma_commit();
        tma_wait_read();
        barrier_arrive(at.dq_empty());
        tma_wait_all();
        pass_turn(turn);
      }
    }
    barrier_arrive(at.kv_empty(b));
  }
}

/// d = A · Bᵀ over 64 columns, both K-major: Sᵀ = K Qᵀ and dPᵀ = V dOᵀ, 64 keys × 128 queries.
__device__ __forceinline__ void issue_outer(float (&d)[64], uint32_t a, uint32_t b) {
  wgmma_hold(d);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    wgmma_k16<0, 0>(d, wgmma_descriptor(a + k * 32, 0), wgmma_descriptor(b + k * 32, 0), k > 0);
  }
  wgmma_commit();
}

/// d += A · B over 128 queries, A in registers, B read transposed in place: dV += Pᵀ dO and dK += dSᵀ Q.
__device__ __forceinline__ void issue_inner(float (&d)[32], const uint32_t (&a)[8][4], uint32_t b) {
  wgmma_hold(d);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < block / 16; ++k) wgmma_k16<1>(d, a[k], wgmma_descriptor(b + k * 2048, 0), 1);
  wgmma_commit();
}

/// dSᵀ of 64 keys into the two slabs of 64 queries, for issue_dq.
__device__ __forceinline__ void store_ds(const uint32_t (&packed)[8][4], uint32_t ds, int consumer) {
  const int warp = (threadIdx.x % 128) / 32, lane = threadIdx.x % 32;
  const int row = consumer * 64 + warp * 16 + lane % 8 + 8 * ((lane / 8) & 1);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int chunk = (2 * k) % 8 + lane / 16;
    store_matrices(ds + (k / 4) * (ds_bytes / 2) + row * 128 + ((chunk ^ (row & 7)) << 4), packed[k][0],
                   packed[k][1], packed[k][2], packed[k][3]);
  }
}

/// This warpgroup's half of the dQ tile to the staging buffer, once the writer has emptied it.
__device__ __forceinline__ void hand_over_dq(const float (&dq)[32], const Layout& at, int consumer,
                                             int step) {
  barrier_wait(at.dq_empty(), (step & 1) ^ 1);
  stage_dq(dq, at.dq() + consumer * (dq_bytes / 2));
  barrier_arrive(at.dq_full());
}

/// 64 rows of a finished gradient through `home` (8 KiB of this warpgroup's own) to memory.
__device__ __forceinline__ void store_gradient(const float (&d)[32], float factor, uint32_t home,
                                               const void* map, const BackwardItem& item, int consumer) {
  const int thread = threadIdx.x % 128, lane = thread % 32;
  const int row = thread / 32 * 16 + lane % 8 + 8 * ((lane / 8) & 1);
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    const int chunk = j + lane / 16;
    store_matrices(home + row * 128 + ((chunk ^ (row & 7)) << 4),
                   pack_bf16(d[4 * j] * factor, d[4 * j + 1] * factor),
                   pack_bf16(d[4 * j + 2] * factor, d[4 * j + 3] * factor),
                   pack_bf16(d[4 * j + 4] * factor, d[4 * j + 5] * factor),
                   pack_bf16(d[4 * j + 6] * factor, d[4 * j + 7] * factor));
  }
  fence_async_proxy();
  named_sync(2 + consumer, 128);
  if (thread == 0) {
    tma_store_5d(map, home, 0, item.n * block + consumer * 64, 0, item.kv_head, item.batch);
    tma_commit();
  }
}

/// A warpgroup's 64 keys of every item of this CTA.
__device__ __forceinline__ void consume(const AttentionBackwardSm90Params& p, const Layout& at, int blocks,
                                        int consumer) {
  const int thread = threadIdx.x % 128, quad = thread % 4;
  const int key =
      consumer * 64 + thread / 32 * 16 + (thread % 32) / 4;  // of the block; this thread also has key + 8
  const float scale_log2 = p.scale * log2e;
  const int group = p.heads / p.kv_heads;
  int step = 0;
  for (int items = 0;; ++items) {
    const int b = items & 1;
    barrier_wait(at.kv_full(b), (items >> 1) & 1);
    const BackwardItem item = load_item(at.item(b));
    if (item.n < 0) return;
    const uint32_t k_rows = at.k(b) + consumer * 8192, v_rows = at.v(b) + consumer * 8192;
    const int count = group * (blocks - item.n);
    float s[64], dp[64], dq[32], dk[32], dv[32];
    uint32_t packed[8][4];
#pragma unroll
    for (int i = 0; i < 32; ++i) dk[i] = dv[i] = 0;

    int m = item.n;
    for (int j = 0; j < count; ++j, ++step) {
      const int stage = step & 1, parity = (step >> 1) & 1;
      barrier_wait(at.q_full(stage), parity);
      issue_outer(s, k_rows, at.q(stage));
      barrier_wait(at.do_full(stage), parity);
      issue_outer(dp, v_rows, at.d_o(stage));
      wgmma_wait<1>();
      wgmma_hold(s);
      const bool diagonal = m == item.n;
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const float2 lse = load_pair(at.lse(stage) + (8 * i + 2 * quad) * 4);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          s[4 * i + 2 * r] = exp2_fast(s[4 * i + 2 * r] * scale_log2 - lse.x);
          s[4 * i + 2 * r + 1] = exp2_fast(s[4 * i + 2 * r + 1] * scale_log2 - lse.y);
        }
      }
      if (diagonal) {
#pragma unroll
        for (int i = 0; i < 64; ++i) {
          if (key + 8 * ((i >> 1) & 1) > 8 * (i >> 2) + 2 * quad + (i & 1)) s[i] = 0;
        }
      }
      pack(s, packed);
      issue_inner(dv, packed, at.d_o(stage));
      wgmma_wait<1>();
      wgmma_hold(dp);
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const float2 delta = load_pair(at.delta(stage) + (8 * i + 2 * quad) * 4);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          // P comes back from its rounded pair: keeping it in f32 as well would spill.
          const uint32_t pair = packed[i / 2][2 * (i % 2) + r];
          dp[4 * i + 2 * r] = low_bf16(pair) * (dp[4 * i + 2 * r] - delta.x);
          dp[4 * i + 2 * r + 1] = high_bf16(pair) * (dp[4 * i + 2 * r + 1] - delta.y);
        }
      }
      wgmma_wait<0>();  // dV has read its registers and dO
      wgmma_hold(dv);
      barrier_arrive(at.do_empty(stage));  // by every thread: each has read delta
      pack(dp, packed);
      store_ds(packed, at.ds(stage), consumer);
      fence_async_proxy();
      issue_inner(dk, packed, at.q(stage));
      named_sync(1, 256);  // both halves of dS are there, and both warpgroups have left the other buffer
      issue_dq(dq, at.ds(stage) + consumer * (ds_bytes / 2), at.k(b));
      wgmma_wait<0>();
      wgmma_hold(dk);
      wgmma_hold(dq);
      barrier_arrive(at.q_empty(stage));  // by every thread: each has read log-sum-exp
      hand_over_dq(dq, at, consumer, step);
      m = m + 1 == blocks ? item.n : m + 1;
    }
    store_gradient(dv, 1.0f, v_rows, &p.dv, item, consumer);
    named_sync(1, 256);  // both warpgroups have read K for dQ
    store_gradient(dk, p.scale, k_rows, &p.dk, item, consumer);
    if (thread == 0) {
      tma_wait_read();
      barrier_arrive(at.kv_empty(b));
    }
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(384, 1)
    attention_backward_sm90(const __grid_constant__ AttentionBackwardSm90Params p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const Layout at{shared_address(memory)};
  const int blocks = (p.length + block - 1) / block;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      barrier_init(at.kv_full(i), 1);
      barrier_init(at.kv_empty(i), 3);  // two consumers and the writer
      barrier_init(at.q_full(i), 1);
      barrier_init(at.q_empty(i), 256);
      barrier_init(at.do_full(i), 1);
      barrier_init(at.do_empty(i), 256);
    }
    barrier_init(at.dq_full(), 256);
    barrier_init(at.dq_empty(), 1);
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    lower_registers<32>();
    if (threadIdx.x == 0) produce(p, at, blocks);
    if (threadIdx.x == 32) write_dq(p, at, blocks);
  } else {
    raise_registers<232>();
    consume(p, at, blocks, threadIdx.x / 128 - 1);
    if (threadIdx.x % 128 == 0) tma_wait_all();
  }
}
