// Matrix times few vectors: w is read once, 16 bytes a lane, and a warp takes whole rows of it. The vectors,
// normalised and gated, lie in shared memory as they would be stored. The next tile of w is always on its
// way while one is multiplied; the first is asked for before x is looked at, so that on Hopper it can travel
// while the kernel before is still finishing. The order of a sum depends on K alone.
#include "matvec.h"

#include "groups.cuh"
#include "overlap.cuh"

#ifndef TANG_BATCH
#define TANG_BATCH 1
#endif
#ifndef TANG_Y
#define TANG_Y TANG_T
#endif
typedef TANG_Y out_t;

namespace {

constexpr int batch = TANG_BATCH;
constexpr int rows_each = batch <= 2 ? 1 : 2;  // rows of w that a warp takes at a time: as in matvec_cuda.cpp
constexpr int depth = 4 / rows_each;           // groups of each that a lane has on their way
constexpr int threads = 256, warps = threads / warp_size;
constexpr int tile = depth * warp_size * group_width;  // elements of a row

extern __shared__ uint4 vectors[];  // [B, groups of K]

/// A group of w: read once, so it need not stay in the L1 cache.
__device__ __forceinline__ uint4 stream_group(const data_t* row, int64_t at, int64_t length) {
  if constexpr (vector_rows) {
    uint4 group = make_uint4(0, 0, 0, 0);
    if (at < length) {
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(group.x), "=r"(group.y), "=r"(group.z), "=r"(group.w)
                   : "l"(row + at));
    }
    return group;
  } else {
    return load_group(row, at, length);
  }
}

typedef uint4 Tile[rows_each][depth];

__device__ __forceinline__ void fetch(Tile& w, const MatvecParams& p, int64_t row, int64_t at) {
  const int64_t first = at + threadIdx.x % warp_size * group_width;
#pragma unroll
  for (int r = 0; r < rows_each; ++r) {
    const bool there = row + r < p.rows;
    const data_t* source = row_at<data_t>(p.w, there ? (row + r) * p.w_row : 0);
#pragma unroll
    for (int i = 0; i < depth; ++i)
      w[r][i] = stream_group(source, first + i * warp_size * group_width, there ? p.length : 0);
  }
}

/// 1 / sqrt(mean(x²) + eps) of one vector; the whole block calls it.
__device__ __forceinline__ float inverse_rms(const MatvecParams& p, const data_t* x, float* scratch) {
  float squares = 0.0f;
  for (int64_t g = threadIdx.x; g < p.groups; g += threads) {
    float values[group_width];
    unpack(values, load_group(x, g * group_width, p.length));
#pragma unroll
    for (int i = 0; i < group_width; ++i) squares = fmaf(values[i], values[i], squares);
  }
  return rsqrtf(block_sum(squares, scratch) / static_cast<float>(p.length) + p.eps);
}

/// The vectors into shared memory, each step rounded as its own op would store it.
__device__ __forceinline__ void stage_vectors(const MatvecParams& p, float* scratch) {
  for (int b = 0; b < batch; ++b) {
    const data_t* x = row_at<data_t>(p.x, b * p.x_row);
    const float rstd = p.norm != nullptr ? inverse_rms(p, x, scratch) : 1.0f;
    for (int64_t g = threadIdx.x; g < p.groups; g += threads) {
      const int64_t at = g * group_width;
      uint4 group = load_group(x, at, p.length);
      float values[group_width], other[group_width];
      if (p.norm != nullptr) {
        unpack(values, group);
        unpack(other, load_group(row_at<data_t>(p.norm, 0), at, p.length));
#pragma unroll
        for (int i = 0; i < group_width; ++i) values[i] = values[i] * rstd * other[i];
        group = pack(values);
      }
      if (p.gate != nullptr) {
        unpack(values, group);
        unpack(other, load_group(row_at<data_t>(p.gate, b * p.gate_row), at, p.length));
#pragma unroll
        for (int i = 0; i < group_width; ++i) values[i] *= other[i] * (1.0f / (1.0f + expf(-other[i])));
        group = pack(values);
      }
      vectors[b * p.groups + g] = group;
    }
  }
  __syncthreads();
}

typedef float Sums[rows_each][batch];

__device__ __forceinline__ void multiply(Sums& sums, const Tile& w, const MatvecParams& p, int64_t at) {
#pragma unroll
  for (int i = 0; i < depth; ++i) {
    const int64_t g = at / group_width + i * warp_size + threadIdx.x % warp_size;
    if (g >= p.groups) continue;
    float weights[rows_each][group_width];
#pragma unroll
    for (int r = 0; r < rows_each; ++r) unpack(weights[r], w[r][i]);
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      float x[group_width];
      unpack(x, vectors[b * p.groups + g]);
#pragma unroll
      for (int r = 0; r < rows_each; ++r) {
#pragma unroll
        for (int e = 0; e < group_width; ++e) sums[r][b] = fmaf(weights[r][e], x[e], sums[r][b]);
      }
    }
  }
}

/// Lane b writes what vector b gives.
__device__ __forceinline__ void finish(const Sums& sums, const MatvecParams& p, int64_t row) {
  const int lane = threadIdx.x % warp_size;
#pragma unroll
  for (int r = 0; r < rows_each; ++r) {
    float mine = 0.0f;
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const float total = warp_sum(sums[r][b]);
      if (lane == b) mine = total;
    }
    if (lane >= batch || row + r >= p.rows) continue;
    if (p.residual != nullptr) {
      mine = to_float(from_float<out_t>(mine)) +
             to_float(row_at<data_t>(p.residual, lane * p.residual_row)[row + r]);
    }
    row_at<out_t>(p.y, lane * p.y_row)[row + r] = from_float<out_t>(mine);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads) matvec(const MatvecParams p) {
  __shared__ float scratch[warp_size];
  const int64_t step = static_cast<int64_t>(gridDim.x) * warps * rows_each;
  int64_t row = (static_cast<int64_t>(blockIdx.x) * warps + threadIdx.x / warp_size) * rows_each;
  Tile now;
  fetch(now, p, row, 0);
  let_next_start();
  wait_for_previous();
  stage_vectors(p, scratch);
  for (; row < p.rows; row += step) {
    Sums sums = {};
    for (int64_t at = 0; at < p.length; at += tile) {
      const bool last = at + tile >= p.length;
      Tile ahead;
      fetch(ahead, p, last ? row + step : row, last ? 0 : at + tile);
      multiply(sums, now, p, at);
#pragma unroll
      for (int r = 0; r < rows_each; ++r) {
#pragma unroll
        for (int i = 0; i < depth; ++i) now[r][i] = ahead[r][i];
      }
    }
    finish(sums, p, row);
  }
}
