// The first largest logit of each row: a block a row. Which one is first does not depend on any order. The
// block also copies the table's row that the next step begins with.
#include "next_token.h"

#include "common.cuh"
#include "overlap.cuh"

namespace {

struct Best {
  float value;
  int32_t index;  // -1: none yet
};

__device__ __forceinline__ Best better(Best a, Best b) {
  if (b.index < 0) return a;
  if (a.index < 0 || b.value > a.value || (b.value == a.value && b.index < a.index)) return b;
  return a;
}

__device__ __forceinline__ Best warp_best(Best best) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const Best other = {__shfl_xor_sync(all_lanes, best.value, offset),
                        __shfl_xor_sync(all_lanes, best.index, offset)};
    best = better(best, other);
  }
  return best;
}

constexpr int threads = 1024, in_flight = 4;

__device__ __forceinline__ void take(Best& best, float value, int32_t index) {
  if (value == value) best = better(best, {value, index});
}

/// All threads of the block; the elements have 2 or 4 bytes.
__device__ __forceinline__ void copy_row(void* target, const void* source, int64_t bytes) {
  const auto places = reinterpret_cast<uint64_t>(target) | reinterpret_cast<uint64_t>(source);
  const int64_t vectors = places % 16 == 0 ? bytes / 16 : 0;
  for (int64_t i = threadIdx.x; i < vectors; i += threads)
    static_cast<uint4*>(target)[i] = static_cast<const uint4*>(source)[i];
  for (int64_t i = vectors * 8 + threadIdx.x; i < bytes / 2; i += threads)
    static_cast<uint16_t*>(target)[i] = static_cast<const uint16_t*>(source)[i];
}

}  // namespace

TANG_KERNEL __launch_bounds__(threads, 1) next_token(const NextTokenParams p) {
  __shared__ Best of_warp[warp_size];
  let_next_start();
  wait_for_previous();
  const float* row = p.logits + blockIdx.x * p.logits_row;
  const uint32_t start = p.start[blockIdx.x];  // travels with the logits
  const int32_t vectors = aligned_16(row, 0) ? p.columns / 4 : 0;
  Best best = {0.0f, -1};
  for (int32_t first = threadIdx.x; first < vectors; first += in_flight * threads) {
    float loaded[in_flight][4];
#pragma unroll
    for (int u = 0; u < in_flight; ++u) {
      const int32_t i = first + u * threads;
      load_vector(loaded[u], row + 4 * (i < vectors ? i : first));  // what comes twice changes nothing
    }
#pragma unroll
    for (int u = 0; u < in_flight; ++u) {
      const int32_t i = first + u * threads;
#pragma unroll
      for (int j = 0; j < 4; ++j) take(best, loaded[u][j], 4 * (i < vectors ? i : first) + j);
    }
  }
  for (int32_t i = 4 * vectors + static_cast<int32_t>(threadIdx.x); i < p.columns; i += threads)
    take(best, row[i], i);
  best = warp_best(best);
  const int warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  if (lane == 0) of_warp[warp] = best;
  __syncthreads();
  best = warp_best(of_warp[lane]);  // in every warp: all of them copy
  const uint32_t chosen = best.index < 0 ? 0u : static_cast<uint32_t>(best.index);
  copy_row(static_cast<char*>(p.y) + blockIdx.x * p.y_row,
           static_cast<const char*>(p.table) + chosen * p.table_row, p.y_bytes);
  if (threadIdx.x > 0) return;
  p.ids[blockIdx.x] = chosen;
  if (p.ring != nullptr) p.ring[blockIdx.x * p.ring_row + (start + 1) % p.ring_length] = chosen;
  p.start[blockIdx.x] = static_cast<uint32_t>(min(static_cast<int64_t>(start) + 1, p.last));
}
