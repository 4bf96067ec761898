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
#ifndef TANG_APPEND
#define TANG_APPEND 0  // half of a head's size where the product is q|k|v: see project_append in lib/ops
#endif
#ifndef TANG_Y
#define TANG_Y TANG_T
#endif
typedef TANG_Y out_t;

namespace {

constexpr int batch = TANG_BATCH;
constexpr bool appends = TANG_APPEND != 0;
constexpr int half = appends ? TANG_APPEND : 1;
// Rows of w that a warp takes at a time, as in matvec_cuda.cpp: neighbours, or a pair that RoPE turns.
constexpr int rows_each = batch > 2 || appends ? 2 : 1;
constexpr int rows_apart = appends ? half : 1;
constexpr int depth = TANG_DEPTH;  // groups of each that a lane has on their way
constexpr int threads = 256, warps = threads / warp_size;
constexpr int tile = depth * warp_size * group_width;           // elements of a row
constexpr bool keep_x = TANG_WHOLE != 0 && depth * batch <= 4;  // in registers
// Blocks of a multiprocessor: no more than registers allow without spills.
constexpr bool many_registers =
    !vector_rows || sizeof(data_t) == 4 || depth * rows_each > 4 || batch > 3 || appends;
constexpr int blocks_each = many_registers ? 2 : batch == 1 ? 4 : 3;

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

/// The first row of w in a warp's unit of work.
__device__ __forceinline__ int64_t first_row(int64_t unit) {
  if constexpr (!appends) return unit * rows_each;
  const uint32_t head = static_cast<uint32_t>(unit) / half;
  return int64_t{head} * (2 * half) + (static_cast<uint32_t>(unit) - head * half);
}

/// Where a lane stands in w: the groups from element `at` of a unit's rows.
struct Source {
  const data_t* source[rows_each];
  int64_t length[rows_each], at;  // 0: no such row

  __device__ __forceinline__ Source(const MatvecParams& p, int64_t row, int64_t at)
      : at(at + threadIdx.x % warp_size * group_width) {
#pragma unroll
    for (int r = 0; r < rows_each; ++r) {
      const int64_t mine = row + r * rows_apart;
      const bool there = mine < p.rows;
      source[r] = row_at<data_t>(p.w, there ? mine * p.w_row : 0);
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

/// How lane b's pair of rows is turned, asked for before the product is there.
struct Turn {
  int64_t position;
  float cosine, sine;

  __device__ __forceinline__ void load(const MatvecParams& p, int64_t row) {
    const MatvecAppend& to = p.append;
    const int lane = threadIdx.x % warp_size;
    if (lane >= batch || row >= p.rows) return;
    position = to.start[lane];
    // Past the tables there is nothing right to do; the host keeps positions below the capacity.
    const int64_t turn = position < to.capacity ? position : to.capacity - 1;
    const uint32_t i = static_cast<uint32_t>(row) % (2 * half);
    cosine = to.cos[turn * to.cos_row + i], sine = to.sin[turn * to.sin_row + i];
  }
};

/// Lane b turns what vector b gives, rounded as the product alone would be stored, and puts it where q, the
/// new keys and the new values belong.
__device__ __forceinline__ void finish_pair(const Sums& sums, const Turn& turn, const MatvecParams& p,
                                            int64_t row) {
  const MatvecAppend& to = p.append;
  const int lane = threadIdx.x % warp_size;
  float pair[2] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const float total = warp_sum(sums[r % rows_each][b]);
      if (lane == b) pair[r] = to_float(from_float<data_t>(total));
    }
  }
  if (lane >= batch) return;
  const uint32_t head = static_cast<uint32_t>(row) / (2 * half), i = static_cast<uint32_t>(row) % (2 * half);
  if (head >= static_cast<uint32_t>(to.heads) && turn.position >= to.capacity) return;
  data_t* target = row_at<data_t>(p.y, lane * p.y_row + head * to.q_head);
  const float c = turn.cosine, s = turn.sine;
  float low = fmaf(pair[0], c, -(pair[1] * s)), high = fmaf(pair[1], c, pair[0] * s);
  if (head >= static_cast<uint32_t>(to.heads + to.kv_heads)) {
    const int64_t v_head = head - to.heads - to.kv_heads;
    target = row_at<data_t>(to.v_cache, lane * to.v_batch + turn.position * to.v_row + v_head * to.v_head);
    low = pair[0], high = pair[1];
  } else if (head >= static_cast<uint32_t>(to.heads)) {
    const int64_t k_head = head - to.heads;
    target = row_at<data_t>(to.k_cache, lane * to.k_batch + turn.position * to.k_row + k_head * to.k_head);
  }
  target[i] = from_float<data_t>(low);
  target[i + half] = from_float<data_t>(high);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, blocks_each) matvec(const MatvecParams p) {
  __shared__ float scratch[warp_size];
  const int64_t step = static_cast<int64_t>(gridDim.x) * warps;
  int64_t unit = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.x / warp_size;
  Tile w;
  const Source first(p, first_row(unit), 0);
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
  Turn turn;
  const auto look_ahead = [&](int64_t row) {
    if constexpr (appends) {
      turn.load(p, row);
    } else {
      load_residual(residual, p, row);
    }
  };
  look_ahead(first_row(unit));
  for (int b = 0; b < batch; ++b) stage.vector(p, b, scratch);
  __syncthreads();
  OwnX own;
  if constexpr (keep_x) own.load(p);
  for (int64_t row = first_row(unit); row < p.rows; unit += step, row = first_row(unit)) {
    Sums sums = {};
    for (int64_t at = 0; at < p.length; at += tile) {
      const bool last = TANG_WHOLE != 0 || at + tile >= p.length;
      multiply(sums, w, own, p, at, Source(p, last ? first_row(unit + step) : row, last ? 0 : at + tile));
    }
    if constexpr (appends) {
      finish_pair(sums, turn, p, row);
    } else {
      finish(sums, residual, p, row);
    }
    look_ahead(first_row(unit + step));
  }
}
