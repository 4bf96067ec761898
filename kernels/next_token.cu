// The first largest logit of each row: a block a row. Which one is first does not depend on any order.
#include "next_token.h"

#include "common.cuh"

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

}  // namespace

TANG_KERNEL next_token(const NextTokenParams p) {
  __shared__ Best of_warp[warp_size];
  const float* row = p.logits + blockIdx.x * p.logits_row;
  Best best = {0.0f, -1};
#pragma unroll 8
  for (int32_t i = threadIdx.x; i < p.columns; i += 1024) {
    const float value = row[i];
    if (value == value) best = better(best, {value, i});
  }
  best = warp_best(best);
  const int warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  if (lane == 0) of_warp[warp] = best;
  __syncthreads();
  if (warp > 0) return;
  best = warp_best(of_warp[lane]);
  if (lane > 0) return;
  p.ids[blockIdx.x] = best.index < 0 ? 0u : static_cast<uint32_t>(best.index);
  const int64_t next = static_cast<int64_t>(p.start[blockIdx.x]) + 1;
  p.start[blockIdx.x] = static_cast<uint32_t>(next < p.last ? next : p.last);
}
