// Σ_d o · d_o of every row, the first of attention's three backward kernels: see attention_mma_dkdv.cu.
// The host defines TANG_HEAD_DIM. Memory-bound: o and d_o once; floor at 4.6 TB/s.
#include "attention.h"
#include "common.cuh"

/// delta [B, H, T]. One group of lanes a row, 16 bytes a lane, folded in a fixed order; rows in memory order.
TANG_KERNEL attention_delta_mma(const __grid_constant__ AttentionBackwardParams p) {
  constexpr int chunks = TANG_HEAD_DIM / 8;
  constexpr int group = chunks > 8 ? 16 : chunks > 4 ? 8 : chunks > 2 ? 4 : chunks;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = item / group;
  const int chunk = static_cast<int>(item % group);
  const bool inside = row < static_cast<int64_t>(p.batch) * p.length * p.heads;
  const int h = static_cast<int>(row % p.heads), t = static_cast<int>(row / p.heads % p.length);
  const int64_t b = row / p.heads / p.length;
  float sum = 0.0f;
  if (inside && chunk < chunks) {
    float o[8], d_o[8];
    load_vector(o, static_cast<const bf16*>(p.o) + b * p.o_strides.batch + t * p.o_strides.row +
                       h * p.o_strides.head + chunk * 8);
    load_vector(d_o, static_cast<const bf16*>(p.d_o) + b * p.do_strides.batch + t * p.do_strides.row +
                         h * p.do_strides.head + chunk * 8);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fmaf(o[i], d_o[i], sum);
  }
#pragma unroll
  for (int offset = group / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(all_lanes, sum, offset);
  if (inside && chunk == 0) p.delta[(b * p.heads + h) * p.length + t] = sum;
}
