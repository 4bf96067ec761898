// Matrix times few vectors: w is read once, 16 bytes a lane, and a warp takes whole rows of it. The vectors,
// normalised and gated, lie in shared memory as they would be stored. A lane always has TANG_DEPTH groups of
// w on their way: each is asked for again, a tile further on, as soon as it is multiplied. The first tile is
// asked for before x is looked at, so that on Hopper it can travel while the kernel before is still
// finishing; whatever else does not come from that kernel is asked for then too. The order of a sum depends
// on K alone.
#include "matvec.h"

#include "groups.cuh"
#include "overlap.cuh"
#include "sigmoid.cuh"

#ifndef TANG_BATCH
#define TANG_BATCH 1
#endif
#ifndef TANG_DEPTH
#define TANG_DEPTH 4
#endif
#ifndef TANG_WHOLE
#define TANG_WHOLE 0  // 1: a row of w is one tile
#endif
#ifndef TANG_Y
#define TANG_Y TANG_T
#endif
typedef TANG_Y out_t;

namespace {

constexpr int batch = TANG_BATCH;
constexpr int rows_each = batch <= 2 ? 1 : 2;  // rows of w that a warp takes at a time: as in matvec_cuda.cpp
constexpr int depth = TANG_DEPTH;              // groups of each that a lane has on their way
constexpr int threads = 256, warps = threads / warp_size;
constexpr int tile = depth * warp_size * group_width;           // elements of a row
constexpr bool keep_x = TANG_WHOLE != 0 && depth * batch <= 4;  // in registers
// Blocks of a multiprocessor: no more than registers allow without spills.
constexpr int blocks_each = !vector_rows || sizeof(data_t) == 4 || depth * rows_each > 4 || batch > 3 ? 2
                            : batch == 1                                                              ? 4
                                                                                                      : 3;

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

/// Where a lane stands in w: the groups from element `at` of `rows_each` rows.
struct Source {
  const data_t* source[rows_each];
  int64_t length[rows_each], at;  // 0: no such row

  __device__ __forceinline__ Source(const MatvecParams& p, int64_t row, int64_t at)
      : at(at + threadIdx.x % warp_size * group_width) {
#pragma unroll
    for (int r = 0; r < rows_each; ++r) {
      const bool there = row + r < p.rows;
      source[r] = row_at<data_t>(p.w, there ? (row + r) * p.w_row : 0);
      length[r] = there ? p.length : 0;
    }
  }
  __device__ __forceinline__ uint4 load(int r, int i) const {
    return stream_group(source[r], at + i * warp_size * group_width, length[r]);
  }
};

typedef uint4 Tile[rows_each][depth];

/// A vector's way from memory to shared memory, each step rounded as its own op would store it. A thread
/// keeps its first groups in registers; only long vectors have more.
struct Stage {
  static constexpr int kept = 2;
  uint4 norm[kept];

  static __device__ __forceinline__ int64_t group(int i) { return threadIdx.x + i * threads; }
  static __device__ __forceinline__ uint4 load(const void* row, int64_t g, int64_t length) {
    return load_group(row_at<data_t>(row, 0), g * group_width, length);
  }

  /// What no kernel before writes.
  __device__ __forceinline__ void prefetch(const MatvecParams& p) {
#pragma unroll
    for (int i = 0; i < kept; ++i) norm[i] = load(p.norm, group(i), p.norm != nullptr ? p.length : 0);
  }

  static __device__ __forceinline__ uint4 prepare(const MatvecParams& p, uint4 group, uint4 norm, uint4 gate,
                                                  float rstd) {
    float values[group_width], other[group_width];
    if (p.norm != nullptr) {
      unpack(values, group);
      unpack(other, norm);
#pragma unroll
      for (int i = 0; i < group_width; ++i) values[i] = values[i] * rstd * other[i];
      group = pack(values);
    }
    if (p.gate != nullptr) {
      unpack(values, group);
      unpack(other, gate);
#pragma unroll
      for (int i = 0; i < group_width; ++i) values[i] *= other[i] * sigmoid(other[i]);
      group = pack(values);
    }
    return group;
  }

  static __device__ __forceinline__ void add_squares(float& squares, uint4 group) {
    float values[group_width];
    unpack(values, group);
#pragma unroll
    for (int i = 0; i < group_width; ++i) squares = fmaf(values[i], values[i], squares);
  }

  __device__ __forceinline__ void vector(const MatvecParams& p, int b, float* scratch) const {
    const data_t* x = row_at<data_t>(p.x, b * p.x_row);
    const data_t* gate_row = row_at<data_t>(p.gate, b * p.gate_row);
    const int64_t gated = p.gate != nullptr ? p.length : 0;
    uint4 row[kept], gate[kept];
#pragma unroll
    for (int i = 0; i < kept; ++i) {
      row[i] = load(x, group(i), p.length);
      gate[i] = load(gate_row, group(i), gated);
    }
    float rstd = 1.0f;
    if (p.norm != nullptr) {
      float squares = 0.0f;
#pragma unroll
      for (int i = 0; i < kept; ++i) add_squares(squares, row[i]);
      for (int64_t g = group(kept); g < p.groups; g += threads) add_squares(squares, load(x, g, p.length));
      rstd = rsqrtf(block_sum(squares, scratch) / static_cast<float>(p.length) + p.eps);
    }
    uint4* target = vectors + b * p.groups;
#pragma unroll
    for (int i = 0; i < kept; ++i) {
      if (group(i) < p.groups) target[group(i)] = prepare(p, row[i], norm[i], gate[i], rstd);
    }
    for (int64_t g = group(kept); g < p.groups; g += threads) {
      const uint4 weight = load(p.norm, g, p.norm != nullptr ? p.length : 0);
      target[g] = prepare(p, load(x, g, p.length), weight, load(gate_row, g, gated), rstd);
    }
  }
};

/// A lane's own groups of the vectors, where a row of w is one tile: unpacked once for all rows.
struct OwnX {
  float x[keep_x ? batch : 1][keep_x ? depth : 1][group_width];

  __device__ __forceinline__ void load(const MatvecParams& p) {
#pragma unroll
    for (int b = 0; b < batch; ++b) {
#pragma unroll
      for (int i = 0; i < depth; ++i) {
        const int64_t g = i * warp_size + threadIdx.x % warp_size;
        unpack(x[b][i], g < p.groups ? vectors[b * p.groups + g] : make_uint4(0, 0, 0, 0));
      }
    }
  }
};

typedef float Sums[rows_each][batch];

/// Multiplies the tile at element `at` of its rows, and asks for the one at `next` in its place.
__device__ __forceinline__ void multiply(Sums& sums, Tile& w, const OwnX& own, const MatvecParams& p,
                                         int64_t at, const Source& next) {
#pragma unroll
  for (int i = 0; i < depth; ++i) {
    float weights[rows_each][group_width];
#pragma unroll
    for (int r = 0; r < rows_each; ++r) {
      unpack(weights[r], w[r][i]);
      w[r][i] = next.load(r, i);
    }
    const int64_t g = at / group_width + i * warp_size + threadIdx.x % warp_size;
    if (!keep_x && g >= p.groups) continue;
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      float x[group_width];
      if constexpr (!keep_x) unpack(x, vectors[b * p.groups + g]);
#pragma unroll
      for (int r = 0; r < rows_each; ++r) {
#pragma unroll
        for (int e = 0; e < group_width; ++e)
          sums[r][b] = fmaf(weights[r][e], keep_x ? own.x[b % (keep_x ? batch : 1)][keep_x ? i : 0][e] : x[e],
                            sums[r][b]);
      }
    }
  }
}

/// What lane b adds to the product with vector b, asked for before the product is there.
__device__ __forceinline__ void load_residual(float (&residual)[rows_each], const MatvecParams& p,
                                              int64_t row) {
  const int lane = threadIdx.x % warp_size;
#pragma unroll
  for (int r = 0; r < rows_each; ++r) {
    const bool mine = p.residual != nullptr && lane < batch && row + r < p.rows;
    residual[r] = mine ? to_float(row_at<data_t>(p.residual, lane * p.residual_row)[row + r]) : 0.0f;
  }
}

/// Lane b writes what vector b gives.
__device__ __forceinline__ void finish(const Sums& sums, const float (&residual)[rows_each],
                                       const MatvecParams& p, int64_t row) {
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
    if (p.residual != nullptr) mine = to_float(from_float<out_t>(mine)) + residual[r];
    row_at<out_t>(p.y, lane * p.y_row)[row + r] = from_float<out_t>(mine);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, blocks_each) matvec(const MatvecParams p) {
  __shared__ float scratch[warp_size];
  const int64_t step = static_cast<int64_t>(gridDim.x) * warps * rows_each;
  int64_t row = (static_cast<int64_t>(blockIdx.x) * warps + threadIdx.x / warp_size) * rows_each;
  Tile w;
  const Source first(p, row, 0);
#pragma unroll
  for (int r = 0; r < rows_each; ++r) {
#pragma unroll
    for (int i = 0; i < depth; ++i) w[r][i] = first.load(r, i);
  }
  Stage stage;
  stage.prefetch(p);
  let_next_start();
  wait_for_previous();
  float residual[rows_each];
  load_residual(residual, p, row);
  for (int b = 0; b < batch; ++b) stage.vector(p, b, scratch);
  __syncthreads();
  OwnX own;
  if constexpr (keep_x) own.load(p);
  for (; row < p.rows; row += step) {
    Sums sums = {};
    for (int64_t at = 0; at < p.length; at += tile) {
      const bool last = TANG_WHOLE != 0 || at + tile >= p.length;
      multiply(sums, w, own, p, at, Source(p, last ? row + step : row, last ? 0 : at + tile));
    }
    finish(sums, residual, p, row);
    load_residual(residual, p, row + step);
  }
}
