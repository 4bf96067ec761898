// Causal grouped-query attention for Hopper: TMA loads, wgmma, one producer warp and two consumer warpgroups.
// A tile is 128 queries of one head; each consumer owns 64 of them and walks the keys in blocks of 128 from
// the diagonal down. QK(j) is issued before P·V(j+1), so the softmax of block j runs beside a matrix product;
// the two consumers take turns at issuing. P stays in registers. The order of tiles never enters a result:
// the bits repeat.
#include "attention_sm90.h"

#include "common.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

namespace {

constexpr int D = TANG_HEAD_DIM;
constexpr int slabs = D / 64;  // 128-byte-wide columns of a tile
constexpr int M = 128;         // queries a tile
constexpr int N = 128;         // keys a block
constexpr int consumers = 2;   // warpgroups of 64 queries
constexpr int stages = 2;      // K and V blocks in flight
constexpr int section = 64;    // heads walked together, so that their K and V stay in L2
constexpr uint32_t slab_bytes = 128 * 128;
constexpr uint32_t tile_bytes = slabs * slab_bytes;
constexpr float log2e = 1.4426950408889634f;
constexpr float ln2 = 0.6931471805599453f;

struct Tile {
  int m, head, batch;
};

/// Longest tiles first within a section of heads.
__device__ __forceinline__ Tile tile_at(int index, int tiles_m, int heads, int pairs) {
  const int part = index / (section * tiles_m);
  const int rest = index - part * section * tiles_m;
  const int width = min(section, pairs - part * section);
  const int pair = part * section + rest % width;
  return {tiles_m - 1 - rest / width, pair % heads, pair / heads};
}

/// Shared memory by address: tiles first (1024-byte aligned), then the barriers.
struct Layout {
  uint32_t base;
  __device__ uint32_t q(int buffer) const { return base + buffer * tile_bytes; }
  __device__ uint32_t k(int stage) const { return base + (2 + stage) * tile_bytes; }
  __device__ uint32_t v(int stage) const { return base + (2 + stages + stage) * tile_bytes; }
  __device__ uint32_t barrier(int index) const { return base + (2 + 2 * stages) * tile_bytes + 8 * index; }
  __device__ uint32_t q_full(int b) const { return barrier(b); }
  __device__ uint32_t q_empty(int b) const { return barrier(2 + b); }
  __device__ uint32_t k_full(int s) const { return barrier(4 + s); }
  __device__ uint32_t k_empty(int s) const { return barrier(4 + stages + s); }
  __device__ uint32_t v_full(int s) const { return barrier(4 + 2 * stages + s); }
  __device__ uint32_t v_empty(int s) const { return barrier(4 + 3 * stages + s); }
};

/// One thread feeds the ring: Q of a tile, then K and V of each of its blocks.
__device__ __forceinline__ void produce(const AttentionForwardSm90Params& p, const Layout& at, int tiles_m,
                                        int total) {
  int filled = 0, tiles = 0;
  const int group = p.heads / p.kv_heads;
  for (int index = blockIdx.x; index < total; index += gridDim.x, ++tiles) {
    const Tile tile = tile_at(index, tiles_m, p.heads, p.batch * p.heads);
    const int buffer = tiles & 1;
    barrier_wait(at.q_empty(buffer), ((tiles >> 1) & 1) ^ 1);
    barrier_expect(at.q_full(buffer), tile_bytes);
    tma_load_5d(at.q(buffer), &p.q, at.q_full(buffer), 0, tile.m * M, 0, tile.head, tile.batch);
    for (int block = tile.m; block >= 0; --block, ++filled) {
      const int stage = filled % stages, parity = ((filled / stages) & 1) ^ 1;
      barrier_wait(at.k_empty(stage), parity);
      barrier_expect(at.k_full(stage), tile_bytes);
      tma_load_5d(at.k(stage), &p.k, at.k_full(stage), 0, block * N, 0, tile.head / group, tile.batch);
      barrier_wait(at.v_empty(stage), parity);
      barrier_expect(at.v_full(stage), tile_bytes);
      tma_load_5d(at.v(stage), &p.v, at.v_full(stage), 0, block * N, 0, tile.head / group, tile.batch);
    }
  }
}

/// s = Q · Kᵀ: 64 queries × 64 or 128 keys (twice the size of s), queued but not waited for.
template <int Scores>
__device__ __forceinline__ void issue_scores(float (&s)[Scores], uint32_t q, uint32_t k) {
  wgmma_hold(s);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < D / 16; ++step) {
    const uint32_t offset = (step / 4) * slab_bytes + (step % 4) * 32;
    wgmma_k16<0, 0>(s, wgmma_descriptor(q + offset, 0), wgmma_descriptor(k + offset, 0), step > 0);
  }
  wgmma_commit();
}

/// o += P · V over 128 keys, queued but not waited for. V is read transposed in place.
__device__ __forceinline__ void issue_values(float (&o)[D / 2], const uint32_t (&probability)[8][4],
                                             uint32_t v) {
  wgmma_hold(o);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < 8; ++step) {
    const uint64_t b = wgmma_descriptor(v + step * 2048, slab_bytes);
    wgmma_k16<1>(o, probability[step], b, 1);
  }
  wgmma_commit();
}

/// Running statistics of the two rows a thread shares with its quad.
struct Rows {
  float peak[2] = {-1e30f, -1e30f};  // largest raw score; finite, so that differences never become NaN
  float sum[2] = {0, 0};             // this thread's part of Σ exp
};

/// Turns raw scores into probabilities (bf16 pairs, A-operand layout) and returns the factors for what came
/// before.
template <int Scores>
__device__ __forceinline__ void softmax_block(float (&s)[Scores], Rows& rows, float (&factor)[2],
                                              float scale_log2) {
  float peak[2] = {rows.peak[0], rows.peak[1]};
#pragma unroll
  for (int i = 0; i < Scores; ++i) peak[(i >> 1) & 1] = fmaxf(peak[(i >> 1) & 1], s[i]);
  float shift[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    peak[r] = fmaxf(peak[r], __shfl_xor_sync(all_lanes, peak[r], 1));
    peak[r] = fmaxf(peak[r], __shfl_xor_sync(all_lanes, peak[r], 2));
    shift[r] = peak[r] * scale_log2;
    factor[r] = exp2_fast(rows.peak[r] * scale_log2 - shift[r]);
    rows.peak[r] = peak[r];
    rows.sum[r] *= factor[r];
  }
#pragma unroll
  for (int i = 0; i < Scores; ++i) {
    s[i] = exp2_fast(s[i] * scale_log2 - shift[(i >> 1) & 1]);
    rows.sum[(i >> 1) & 1] += s[i];
  }
}

/// Probabilities of the keys in s; those of later keys of the block are 0.
template <int Scores>
__device__ __forceinline__ void pack_probabilities(const float (&s)[Scores], uint32_t (&probability)[8][4]) {
#pragma unroll
  for (int step = 0; step < 8; ++step) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      probability[step][q] = 8 * step < Scores ? pack_bf16(s[8 * step + 2 * q], s[8 * step + 2 * q + 1]) : 0;
    }
  }
}

/// The first block of a tile, on the diagonal: a consumer's last 64 keys are a triangle, those after them are
/// not computed.
template <int Scores>
__device__ __forceinline__ void diagonal_block(uint32_t q, uint32_t k, uint32_t release, uint32_t last_q,
                                               Rows& rows, float scale_log2, uint32_t (&probability)[8][4]) {
  const int thread = threadIdx.x % 128, row = (thread / 32) * 16 + (thread % 32) / 4;
  float s[Scores], factor[2];
  issue_scores(s, q, k);
  if (thread == 0 && last_q != 0) {  // the last tile's output has left its Q buffer by now
    tma_wait_read();
    barrier_arrive(last_q);
  }
  wgmma_wait<0>();
  wgmma_hold(s);
  if (thread == 0) barrier_arrive(release);
#pragma unroll
  for (int i = Scores - 32; i < Scores; ++i) {
    const int column = 8 * ((i >> 2) % 8) + 2 * (thread % 4) + (i & 1);
    if (column > row + 8 * ((i >> 1) & 1)) s[i] = -1e30f;
  }
  softmax_block(s, rows, factor, scale_log2);
  pack_probabilities(s, probability);
}

/// Normalises and stores 64 rows of o through the tile's own rows of the Q buffer, and the rows' log-sum-exp.
__device__ __forceinline__ void finish_tile(const AttentionForwardSm90Params& p, const Tile& tile,
                                            float (&o)[D / 2], Rows& rows, uint32_t buffer, int group) {
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
  float inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = rows.sum[r];
    sum += __shfl_xor_sync(all_lanes, sum, 1);
    sum += __shfl_xor_sync(all_lanes, sum, 2);
    inverse[r] = 1.0f / sum;
    const int row = tile.m * M + group * 64 + warp * 16 + lane / 4 + 8 * r;
    if (lane % 4 == 0 && row < p.length) {
      const int64_t index = (static_cast<int64_t>(tile.batch) * p.heads + tile.head) * p.length + row;
      p.lse[index] = rows.peak[r] * p.scale + __log2f(sum) * ln2;
    }
  }
#pragma unroll
  for (int i = 0; i < D / 2; ++i) o[i] *= inverse[(i >> 1) & 1];
  const uint32_t home = buffer + group * 8192;
  const int row = warp * 16 + lane % 8 + 8 * ((lane / 8) & 1);
#pragma unroll
  for (int j = 0; j < D / 8; j += 2) {
    const int chunk = j % 8 + lane / 16;
    store_matrices(home + (j / 8) * slab_bytes + row * 128 + ((chunk ^ (row & 7)) << 4),
                   pack_bf16(o[4 * j], o[4 * j + 1]), pack_bf16(o[4 * j + 2], o[4 * j + 3]),
                   pack_bf16(o[4 * j + 4], o[4 * j + 5]), pack_bf16(o[4 * j + 6], o[4 * j + 7]));
  }
  fence_async_proxy();
  named_sync(3 + group, 128);
  if (thread == 0) {
#pragma unroll
    for (int slab = 0; slab < slabs; ++slab) {
      tma_store_5d(&p.o, home + slab * slab_bytes, 0, tile.m * M + group * 64, slab, tile.head, tile.batch);
    }
    tma_commit();
  }
}

/// A warpgroup's share of every tile of this CTA.
__device__ __forceinline__ void consume(const AttentionForwardSm90Params& p, const Layout& at, int tiles_m,
                                        int total, int group) {
  const int thread = threadIdx.x % 128;
  const float scale_log2 = p.scale * log2e;
  int taken = 0, tiles = 0;
  if (group == 1) named_arrive(1, 256);  // the first turn is consumer 0's
  for (int index = blockIdx.x; index < total; index += gridDim.x, ++tiles) {
    const Tile tile = tile_at(index, tiles_m, p.heads, p.batch * p.heads);
    const int buffer = tiles & 1;
    const uint32_t q = at.q(buffer) + group * 8192;
    float s[64], o[D / 2], factor[2];
    uint32_t probability[8][4];
    Rows rows;
#pragma unroll
    for (int i = 0; i < D / 2; ++i) o[i] = 0;

    barrier_wait(at.q_full(buffer), (tiles >> 1) & 1);
    barrier_wait(at.k_full(taken % stages), (taken / stages) & 1);
    const uint32_t first_k = at.k(taken % stages), release = at.k_empty(taken % stages);
    const uint32_t last_q = tiles > 0 ? at.q_empty(buffer ^ 1) : 0;
    if (group == 0) {
      diagonal_block<32>(q, first_k, release, last_q, rows, scale_log2, probability);
    } else {
      diagonal_block<64>(q, first_k, release, last_q, rows, scale_log2, probability);
    }

    for (int block = tile.m - 1; block >= 0; --block) {
      const int held = taken % stages, held_parity = (taken / stages) & 1;
      ++taken;
      const int stage = taken % stages;
      barrier_wait(at.k_full(stage), (taken / stages) & 1);
      named_sync(1 + group, 256);
      issue_scores(s, q, at.k(stage));
      barrier_wait(at.v_full(held), held_parity);
      issue_values(o, probability, at.v(held));
      named_arrive(2 - group, 256);
      wgmma_wait<1>();
      wgmma_hold(s);
      if (thread == 0) barrier_arrive(at.k_empty(stage));
      softmax_block(s, rows, factor, scale_log2);
      wgmma_wait<0>();
      wgmma_hold(o);
      if (thread == 0) barrier_arrive(at.v_empty(held));
#pragma unroll
      for (int i = 0; i < D / 2; ++i) o[i] *= factor[(i >> 1) & 1];
      pack_probabilities(s, probability);
    }
    const int held = taken % stages;
    barrier_wait(at.v_full(held), (taken / stages) & 1);
    issue_values(o, probability, at.v(held));
    wgmma_wait<0>();
    wgmma_hold(o);
    if (thread == 0) barrier_arrive(at.v_empty(held));
    ++taken;
    finish_tile(p, tile, o, rows, at.q(buffer), group);
  }
  if (thread == 0) tma_wait_all();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128 * (consumers + 1), 1)
    attention_forward_sm90(const __grid_constant__ AttentionForwardSm90Params p) {
  extern __shared__ unsigned char memory[];
  const Layout at{(shared_address(memory) + 1023) & ~1023u};
  const int tiles_m = (p.length + M - 1) / M;
  const int total = tiles_m * p.batch * p.heads;
  if (threadIdx.x == 0) {
    for (int b = 0; b < 2; ++b) {
      barrier_init(at.q_full(b), 1);
      barrier_init(at.q_empty(b), consumers);
    }
    for (int s = 0; s < stages; ++s) {
      barrier_init(at.k_full(s), 1);
      barrier_init(at.v_full(s), 1);
      barrier_init(at.k_empty(s), consumers);
      barrier_init(at.v_empty(s), consumers);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    lower_registers<24>();
    if (threadIdx.x == 0) produce(p, at, tiles_m, total);
  } else {
    raise_registers<240>();
    consume(p, at, tiles_m, total, threadIdx.x / 128 - 1);
  }
}
