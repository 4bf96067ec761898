// Causal grouped-query attention for Hopper: TMA loads, wgmma, one producer warp and several consumer
// warpgroups. A tile is 64 queries for each consumer, of one head or of two that share a KV head; the
// consumers walk the keys in blocks from the diagonal down. QK(j) is issued before P·V(j+1), so that the
// softmax of block j runs beside a matrix product. P stays in registers. Tiles are claimed as CTAs become
// free, but no result depends on who computes a tile: the bits repeat.
#include "attention_sm90.h"

#include "attention_sm90_softmax.cuh"
#include "common.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

namespace {

constexpr int D = TANG_HEAD_DIM;
constexpr int slabs = D / 64;              // 128-byte-wide columns of a tile
constexpr int consumers = TANG_CONSUMERS;  // warpgroups of 64 queries: 2, 3 or 4
constexpr int heads = TANG_HEADS;          // query heads of a tile; they share a KV head
constexpr int bands = consumers / heads;   // of 64 queries of one head
constexpr int M = 64 * bands;              // positions a tile
constexpr int N = TANG_KEYS;               // keys a block: 64 or 128
constexpr int stages = TANG_STAGES;        // K and V blocks in flight
constexpr bool take_turns = TANG_TURNS;    // consumers issue their products one after the other
constexpr int early = N / 4;               // of a thread's N / 2 exponentials: before P·V is waited for
constexpr int kept_registers = consumers == 2 ? 232 : consumers == 3 ? 160 : 112;
constexpr int left_registers = consumers == 2 ? 40 : 32;
constexpr uint32_t q_slab = M * 128, kv_slab = N * 128;
constexpr uint32_t q_head = slabs * q_slab, q_bytes = heads * q_head, kv_bytes = slabs * kv_slab;
constexpr float ln2 = 0.6931471805599453f;

/// The next tile to claim; 0 before and after every launch. Launches of this kernel do not overlap.
__device__ uint32_t next_tile;

struct Tile {
  int m, pair;  // which positions of which head, or heads: pair counts those of all sequences
};

/// Longest tiles first within a section of heads.
__device__ __forceinline__ Tile tile_at(int index, int tiles_m, int pairs, int section) {
  const int part = index / (section * tiles_m);
  const int rest = index - part * section * tiles_m;
  const int width = min(section, pairs - part * section);
  return {tiles_m - 1 - rest / width, part * section + rest % width};
}

/// The block that holds a tile's last visible key.
__device__ __forceinline__ int top_block(int m, int length) { return (min((m + 1) * M, length) - 1) / N; }

/// A place in the ring of K and V blocks.
struct Place {
  uint32_t stage = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

/// Shared memory by address: tiles first (1024-byte aligned), then the barriers, then what the tiles are.
struct Layout {
  uint32_t base;
  __device__ uint32_t q(int buffer) const { return base + buffer * q_bytes; }
  /// Of a consumer's part of a tile.
  __device__ uint32_t rows(int buffer, int part) const {
    return q(buffer) + part / bands * q_head + part % bands * 8192;
  }
  __device__ uint32_t k(int stage) const { return base + 2 * q_bytes + stage * kv_bytes; }
  __device__ uint32_t v(int stage) const { return k(stages + stage); }
  __device__ uint32_t barrier(int index) const { return k(2 * stages) + 8 * index; }
  __device__ uint32_t q_full(int b) const { return barrier(b); }
  __device__ uint32_t q_empty(int b) const { return barrier(2 + b); }
  __device__ uint32_t k_full(int s) const { return barrier(4 + s); }
  __device__ uint32_t k_empty(int s) const { return barrier(4 + stages + s); }
  __device__ uint32_t v_full(int s) const { return barrier(4 + 2 * stages + s); }
  __device__ uint32_t v_empty(int s) const { return barrier(4 + 3 * stages + s); }
  __device__ uint32_t tile(int b) const { return barrier(4 + 4 * stages + b); }
};

__device__ __forceinline__ void store_shared(uint32_t address, int value) {
  asm volatile("st.shared.s32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
/// The value at `address` for the whole warp, read by its lane 0.
__device__ __forceinline__ int load_shared(uint32_t address) {
  int value = 0;
  if (threadIdx.x % 32 == 0) asm volatile("ld.shared.s32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return __reduce_or_sync(all_lanes, value);
}

/// One thread feeds the ring: Q of a tile, then K and V of each of its blocks. The counter wraps to 0 by
/// itself: every CTA claims once more than it gets, and its first tile is not claimed.
__device__ __forceinline__ void produce(const AttentionForwardSm90Params& p, const Layout& at, int tiles_m,
                                        int total) {
  Place place;
  const int group = p.heads / p.kv_heads;
  int index = blockIdx.x;
  for (int tiles = 0;; ++tiles) {
    const int buffer = tiles & 1;
    barrier_wait(at.q_empty(buffer), ((tiles >> 1) & 1) ^ 1);
    if (index >= total) {
      store_shared(at.tile(buffer), -1);
      barrier_arrive(at.q_full(buffer));
      return;
    }
    const Tile tile = tile_at(index, tiles_m, p.batch * p.heads / heads, p.section);
    const int head = tile.pair * heads % p.heads, batch = tile.pair * heads / p.heads;
    store_shared(at.tile(buffer), tile.m);
    store_shared(at.tile(buffer) + 4, tile.pair);
    barrier_expect(at.q_full(buffer), q_bytes);
    tma_load_5d(at.q(buffer), &p.q, at.q_full(buffer), 0, tile.m * M, 0, head, batch);
    index = gridDim.x + atomicInc(&next_tile, total - 1);
    for (int block = top_block(tile.m, p.length); block >= 0; --block, place.advance()) {
      const int stage = place.stage;
      barrier_wait(at.k_empty(stage), place.parity ^ 1);
      barrier_expect(at.k_full(stage), kv_bytes);
      tma_load_5d(at.k(stage), &p.k, at.k_full(stage), 0, block * N, 0, head / group, batch);
      barrier_wait(at.v_empty(stage), place.parity ^ 1);
      barrier_expect(at.v_full(stage), kv_bytes);
      tma_load_5d(at.v(stage), &p.v, at.v_full(stage), 0, block * N, 0, head / group, batch);
    }
  }
}

/// s = Q · Kᵀ: 64 queries × 64 or 128 keys (twice the size of s), queued but not waited for.
template <int Scores>
__device__ __forceinline__ void issue_scores(float (&s)[Scores], uint32_t q, uint32_t k) {
  q = uniform(q), k = uniform(k);
  const uint64_t q_tile = wgmma_descriptor(q, 0), k_tile = wgmma_descriptor(k, 0);
  wgmma_hold(s);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < D / 16; ++step) {
    const uint32_t offset = (step % 4) * 32;
    wgmma_k16<0, 0>(s, q_tile + (((step / 4) * q_slab + offset) >> 4),
                    k_tile + (((step / 4) * kv_slab + offset) >> 4), step > 0);
  }
  wgmma_commit();
}

/// o += P · V over a block's keys, queued but not waited for. V is read transposed in place.
__device__ __forceinline__ void issue_values(float (&o)[D / 2], const uint32_t (&probability)[N / 16][4],
                                             uint32_t v) {
  v = uniform(v);
  const uint64_t v_tile = wgmma_descriptor(v, kv_slab);
  wgmma_hold(o);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < N / 16; ++step) {
    wgmma_k16<1>(o, probability[step], v_tile + step * (2048 >> 4), 1);
  }
  wgmma_commit();
}

/// A consumer's block on the diagonal: the last 64 keys are a triangle, those after them are not computed.
template <int Scores, class Release>
__device__ __forceinline__ void diagonal_block(const AttentionForwardSm90Params& p, uint32_t q, uint32_t k,
                                               uint32_t k_empty, Rows& rows,
                                               uint32_t (&probability)[N / 16][4], const Release& release_q) {
  const int thread = threadIdx.x % 128, row = (thread / 32) * 16 + (thread % 32) / 4;
  float s[Scores], factor[2];
  issue_scores(s, q, k);
  release_q();
  wgmma_wait<0>();
  wgmma_hold(s);
  if (thread == 0) barrier_arrive(k_empty);
#pragma unroll
  for (int i = Scores - 32; i < Scores; ++i) {
    const int column = 8 * ((i >> 2) % 8) + 2 * (thread % 4) + (i & 1);
    if (column > row + 8 * ((i >> 1) & 1)) s[i] = -1e30f;
  }
  raise_peaks(s, rows, factor, p.scale_log2, p.unscale_log2);
  exponentials<0, Scores>(s, rows, p.scale_log2);
  pack_probabilities(s, probability);
}

/// Normalises and stores 64 rows of o through the tile's own rows of the Q buffer, and the rows' log-sum-exp.
__device__ __forceinline__ void finish_tile(const AttentionForwardSm90Params& p, const Layout& at,
                                            float (&o)[D / 2], Rows& rows, int buffer, int part, int group) {
  // Read again rather than kept through the loop, which has no register to spare.
  const int first = load_shared(at.tile(buffer)) * M + part % bands * 64;
  const int pair = load_shared(at.tile(buffer) + 4) * heads + part / bands;
  const uint32_t home = at.rows(buffer, part);
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
  float inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = rows.sum[r];
    sum += __shfl_xor_sync(all_lanes, sum, 1);
    sum += __shfl_xor_sync(all_lanes, sum, 2);
    inverse[r] = 1.0f / sum;
    const int row = first + warp * 16 + lane / 4 + 8 * r;
    if (lane % 4 == 0 && row < p.length) {
      const int64_t index = static_cast<int64_t>(pair) * p.length + row;
      p.lse[index] = (rows.peak[r] + __log2f(sum)) * ln2;
    }
  }
#pragma unroll
  for (int i = 0; i < D / 2; ++i) o[i] *= inverse[(i >> 1) & 1];
  const int row = warp * 16 + lane % 8 + 8 * ((lane / 8) & 1);
#pragma unroll
  for (int j = 0; j < D / 8; j += 2) {
    const int chunk = j % 8 + lane / 16;
    store_matrices(home + (j / 8) * q_slab + row * 128 + ((chunk ^ (row & 7)) << 4),
                   pack_bf16(o[4 * j], o[4 * j + 1]), pack_bf16(o[4 * j + 2], o[4 * j + 3]),
                   pack_bf16(o[4 * j + 4], o[4 * j + 5]), pack_bf16(o[4 * j + 6], o[4 * j + 7]));
  }
  fence_async_proxy();
  named_sync(1 + consumers + group, 128);
  if (thread == 0) {
#pragma unroll
    for (int slab = 0; slab < slabs; ++slab) {
      tma_store_5d(&p.o, home + slab * q_slab, 0, first, slab, pair % p.heads, pair / p.heads);
    }
    tma_commit();
  }
}

__device__ __forceinline__ void await_turn(int group) {
  if (take_turns) named_sync(1 + group, 256);
}
__device__ __forceinline__ void pass_turn(int group) {
  if (take_turns) named_arrive(1 + (group + 1) % consumers, 256);
}

/// A warpgroup's share of every tile of this CTA.
__device__ __forceinline__ void consume(const AttentionForwardSm90Params& p, const Layout& at, int group) {
  const int thread = threadIdx.x % 128;
  Place k_place;
  if (group == consumers - 1) pass_turn(group);  // the first turn is consumer 0's
  for (int tiles = 0;; ++tiles) {
    const int buffer = tiles & 1;
    barrier_wait(at.q_full(buffer), (tiles >> 1) & 1);
    const int m = load_shared(at.tile(buffer));
    if (m < 0) break;
    const int part = take_turns ? group : (group + tiles) % consumers;  // the parts' work differs
    const int first = m * M + part % bands * 64;
    const int top = top_block(m, p.length);
    const int last = first < p.length ? first / N : -1;
    const uint32_t q = at.rows(buffer, part);
    // The last tile's output has left its Q buffer, and what it was has been read.
    const auto release_q = [&] {
      if (thread % 32 == 0 && tiles > 0) {
        if (thread == 0) tma_wait_read();
        barrier_arrive(at.q_empty(buffer ^ 1));
      }
    };
    Place v_place;  // of the block whose probabilities are held
    float s[N / 2], o[D / 2], factor[2];
    uint32_t probability[N / 16][4];
    Rows rows;
#pragma unroll
    for (int i = 0; i < D / 2; ++i) o[i] = 0;

    int block = top;
#pragma unroll 1
    for (; block > last; --block) {  // keys after all of this consumer's rows
      barrier_wait(at.k_full(k_place.stage), k_place.parity);
      barrier_wait(at.v_full(k_place.stage), k_place.parity);
      if (block < top) await_turn(group), pass_turn(group);
      named_sync(1 + consumers + group, 128);  // no warp may fall behind the ring
      if (thread == 0) barrier_arrive(at.k_empty(k_place.stage)), barrier_arrive(at.v_empty(k_place.stage));
      k_place.advance();
    }
    if (last < 0) {
      release_q();
      continue;
    }
    barrier_wait(at.k_full(k_place.stage), k_place.parity);
    if (block < top) await_turn(group), pass_turn(group);
    const uint32_t first_k = at.k(k_place.stage), first_empty = at.k_empty(k_place.stage);
    if (N == 64 || first % N == 0) {
      diagonal_block<32>(p, q, first_k, first_empty, rows, probability, release_q);
    } else {
      diagonal_block<N / 2>(p, q, first_k, first_empty, rows, probability, release_q);
    }
    barrier_wait(at.v_full(k_place.stage), k_place.parity);
    v_place = k_place;
    k_place.advance();

#pragma unroll 1
    for (--block; block >= 0; --block) {
      barrier_wait(at.k_full(k_place.stage), k_place.parity);
      await_turn(group);
      issue_scores(s, q, at.k(k_place.stage));
      issue_values(o, probability, at.v(v_place.stage));
      pass_turn(group);
      wgmma_wait<1>();
      wgmma_hold(s);
      if (thread == 0) barrier_arrive(at.k_empty(k_place.stage));
      const bool raise = outgrown(s, rows);
      if (raise) raise_peaks(s, rows, factor, p.scale_log2, p.unscale_log2);
      exponentials<0, early>(s, rows, p.scale_log2);
      // V is waited for here, a block before its use, because this wait keeps the next one where it is.
      barrier_wait(at.v_full(k_place.stage), k_place.parity + negative(rows));
      wgmma_wait<0>();
      wgmma_hold(o);
      if (thread == 0) barrier_arrive(at.v_empty(v_place.stage));
      v_place = k_place;
      k_place.advance();
      if (raise) {
#pragma unroll
        for (int i = 0; i < D / 2; ++i) o[i] *= factor[(i >> 1) & 1];
      }
      exponentials<early, N / 2>(s, rows, p.scale_log2);
      pack_probabilities(s, probability);
    }
    issue_values(o, probability, at.v(v_place.stage));
    wgmma_wait<0>();
    wgmma_hold(o);
    if (thread == 0) barrier_arrive(at.v_empty(v_place.stage));
    finish_tile(p, at, o, rows, buffer, part, group);
  }
  if (thread == 0) tma_wait_all();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128 * (consumers + 1), 1)
    attention_forward_sm90(const __grid_constant__ AttentionForwardSm90Params p) {
  extern __shared__ unsigned char memory[];
  const Layout at{(shared_address(memory) + 1023) & ~1023u};
  const int tiles_m = (p.length + M - 1) / M;
  const int total = tiles_m * p.batch * p.heads / heads;
  if (threadIdx.x == 0) {
    for (int b = 0; b < 2; ++b) {
      barrier_init(at.q_full(b), 1);
      barrier_init(at.q_empty(b), 4 * consumers);  // every warp reads what the tile is
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
  const int group = uniform(threadIdx.x / 128);
  if (group == consumers) {
    lower_registers<left_registers>();
    if (threadIdx.x % 128 == 0) produce(p, at, tiles_m, total);
  } else {
    raise_registers<kept_registers>();
    consume(p, at, group);
  }
}
