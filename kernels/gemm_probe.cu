// Random operands, and a digest of what a product made of them.
#include "gemm_probe.h"

#include "common.cuh"

/// SplitMix64's finaliser.
__device__ __forceinline__ uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

/// Even in (-1, 1), with every fraction bit in use: sums round at every step, so their order shows.
TANG_KERNEL fill_probe(const __grid_constant__ FillProbeParams p) {
  const int64_t first = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const int64_t step = gridDim.x * static_cast<int64_t>(blockDim.x);
  for (int64_t i = first; i < p.count; i += step) {
    const uint64_t bits = mixed(static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15ull + p.seed);
    const float value = static_cast<float>(static_cast<int64_t>(bits) >> 32) * 0x1p-31f;
    static_cast<data_t*>(p.values)[i] = from_float<data_t>(value);
  }
}

TANG_KERNEL digest_probe(const __grid_constant__ DigestProbeParams p) {
  const int64_t first = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const int64_t step = gridDim.x * static_cast<int64_t>(blockDim.x);
  uint64_t sum = 0;
  for (int64_t i = first; i < p.count; i += step)
    sum += mixed((static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15ull) ^ p.words[i]);
  for (int lane = warp_size / 2; lane > 0; lane /= 2) sum += __shfl_xor_sync(all_lanes, sum, lane);
  if (threadIdx.x % warp_size == 0) atomicAdd(p.sum, static_cast<unsigned long long>(sum));
}
