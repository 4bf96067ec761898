// RMSNorm. TANG_TEAM threads share a row and keep it in registers, TANG_GROUPS groups of 16 bytes each, so it
// is read once; the _long kernels read a row that does not fit again from the cache. The backward walks the
// rows with a fixed grid, each block keeps its share of dw, and reduce.cu folds the shares in order. Its
// teams are wide, so that a thread has registers for the next row, which travels while this one is worked on.
#include "rmsnorm.h"

#include "groups.cuh"

#ifndef TANG_TEAM
#define TANG_TEAM 32
#endif
#ifndef TANG_GROUPS
#define TANG_GROUPS 4
#endif

namespace {

constexpr int team = TANG_TEAM;
constexpr int groups = TANG_GROUPS > 0 ? TANG_GROUPS : 1;  // 0 in the _long kernels
constexpr int row_step = team * group_width;
constexpr int forward_threads = team > 128 ? team : 128;  // at most: launch_teams in lib/ops/rows.cpp
constexpr int backward_threads = 256;                     // in lib/ops/rmsnorm_cuda.cpp

__device__ __forceinline__ int first_element() { return threadIdx.x % team * group_width; }

/// a + b as it is stored.
__device__ __forceinline__ uint4 add_groups(uint4 a, uint4 b) {
  float x[group_width], y[group_width];
  unpack(x, a);
  unpack(y, b);
#pragma unroll
  for (int i = 0; i < group_width; ++i) x[i] += y[i];
  return pack(x);
}

__device__ __forceinline__ float add_squares(float squares, uint4 group) {
  float x[group_width];
  unpack(x, group);
#pragma unroll
  for (int i = 0; i < group_width; ++i) squares = fmaf(x[i], x[i], squares);
  return squares;
}

__device__ __forceinline__ uint4 normalise(uint4 group, uint4 weight, float rstd) {
  float x[group_width], w[group_width];
  unpack(x, group);
  unpack(w, weight);
#pragma unroll
  for (int i = 0; i < group_width; ++i) x[i] = x[i] * rstd * w[i];
  return pack(x);
}

__device__ __forceinline__ float add_products(float dot, uint4 upstream, uint4 input, uint4 weight,
                                              float rstd) {
  float dy[group_width], x[group_width], w[group_width];
  unpack(dy, upstream);
  unpack(x, input);
  unpack(w, weight);
#pragma unroll
  for (int i = 0; i < group_width; ++i) dot = fmaf(w[i] * dy[i], x[i] * rstd, dot);
  return dot;
}

/// dx of one group; its part of dw is added to `dw`.
__device__ __forceinline__ uint4 input_gradient(uint4 upstream, uint4 input, uint4 weight, uint4 residual,
                                                float rstd, float mean, float (&dw)[group_width]) {
  float dy[group_width], x[group_width], w[group_width], extra[group_width];
  unpack(dy, upstream);
  unpack(x, input);
  unpack(w, weight);
  unpack(extra, residual);
#pragma unroll
  for (int i = 0; i < group_width; ++i) {
    const float unit = x[i] * rstd;
    dw[i] = fmaf(dy[i], unit, dw[i]);
    extra[i] = fmaf(rstd, fmaf(-unit, mean, w[i] * dy[i]), extra[i]);
  }
  return pack(extra);
}

}  // namespace

TANG_KERNEL __launch_bounds__(forward_threads) rmsnorm_forward(const RmsNormForwardParams p) {
  __shared__ float scratch[32];
  const int64_t n = static_cast<int64_t>(blockIdx.x) * (blockDim.x / team) + threadIdx.x / team;
  if (n >= p.rows) return;  // only whole warps: a larger team is a block of its own
  const data_t* x = row_at<data_t>(p.x, n * p.x_row);
  const data_t* w = row_at<data_t>(p.w, 0);
  data_t* y = row_at<data_t>(p.y, n * p.y_row);
  uint4 row[groups];
#pragma unroll
  for (int g = 0; g < groups; ++g) row[g] = load_group(x, first_element() + g * row_step, p.dim);
  if (p.residual != nullptr) {
    const data_t* residual = row_at<data_t>(p.residual, n * p.residual_row);
    data_t* sum = row_at<data_t>(p.sum, n * p.sum_row);
    uint4 other[groups];
#pragma unroll
    for (int g = 0; g < groups; ++g) other[g] = load_group(residual, first_element() + g * row_step, p.dim);
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      row[g] = add_groups(row[g], other[g]);
      store_group(sum, first_element() + g * row_step, p.dim, row[g]);
    }
  }
  float squares = 0;
#pragma unroll
  for (int g = 0; g < groups; ++g) squares = add_squares(squares, row[g]);
  const float rstd = 1.0f / sqrtf(team_sum<team>(squares, scratch) / static_cast<float>(p.dim) + p.eps);
  if (threadIdx.x % team == 0) p.rstd[n] = rstd;
#pragma unroll
  for (int g = 0; g < groups; ++g) {
    const int at = first_element() + g * row_step;
    store_group(y, at, p.dim, normalise(row[g], load_group(w, at, p.dim), rstd));
  }
}

TANG_KERNEL __launch_bounds__(forward_threads) rmsnorm_forward_long(const RmsNormForwardParams p) {
  __shared__ float scratch[32];
  const int64_t n = blockIdx.x;
  const data_t* x = row_at<data_t>(p.x, n * p.x_row);
  const data_t* w = row_at<data_t>(p.w, 0);
  data_t* y = row_at<data_t>(p.y, n * p.y_row);
  float squares = 0;
  if (p.residual != nullptr) {
    const data_t* residual = row_at<data_t>(p.residual, n * p.residual_row);
    data_t* sum = row_at<data_t>(p.sum, n * p.sum_row);
    for (int64_t at = first_element(); at < p.dim; at += row_step) {
      const uint4 group = add_groups(load_group(x, at, p.dim), load_group(residual, at, p.dim));
      store_group(sum, at, p.dim, group);
      squares = add_squares(squares, group);
    }
    x = sum;  // each thread reads back only what it wrote
  } else {
    for (int64_t at = first_element(); at < p.dim; at += row_step) {
      squares = add_squares(squares, load_group(x, at, p.dim));
    }
  }
  const float rstd = 1.0f / sqrtf(team_sum<team>(squares, scratch) / static_cast<float>(p.dim) + p.eps);
  if (threadIdx.x == 0) p.rstd[n] = rstd;
  for (int64_t at = first_element(); at < p.dim; at += row_step) {
    store_group(y, at, p.dim, normalise(load_group(x, at, p.dim), load_group(w, at, p.dim), rstd));
  }
}

namespace {

constexpr bool one_ahead = groups <= 2;  // the next row is on its way while one is worked on, and w is kept
constexpr int backward_blocks = groups == 1 ? 3 : 2;  // on a multiprocessor
constexpr int team_warps = team / warp_size;

/// What the backward reads of a row.
struct BackwardRow {
  uint4 upstream[groups], input[groups], residual[groups];
  float rstd;

  __device__ __forceinline__ void load(const RmsNormBackwardParams& p, int64_t n) {
    const int64_t dim = n < p.rows ? p.dim : 0;  // 0: zeros
    const data_t* dy = row_at<data_t>(p.dy, n * p.dy_row);
    const data_t* x = row_at<data_t>(p.x, n * p.x_row);
    const data_t* d_sum = row_at<data_t>(p.d_sum, n * p.d_sum_row);
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      upstream[g] = load_group(dy, first_element() + g * row_step, dim);
      input[g] = load_group(x, first_element() + g * row_step, dim);
      residual[g] = load_group(d_sum, first_element() + g * row_step, p.d_sum != nullptr ? dim : 0);
    }
    rstd = n < p.rows ? p.rstd[n] : 0.0f;
  }
};

/// Sum over a team; the whole block calls it. Calls in turn take the two halves of `scratch` in turn: a half
/// is written again only after a barrier that its readers have reached.
__device__ __forceinline__ float sum_of_team(float value, float* scratch, int turn) {
  value = warp_sum(value);
  if constexpr (team_warps > 1) {
    const int warp = threadIdx.x / warp_size, first = warp / team_warps * team_warps;
    scratch += turn * (backward_threads / warp_size);
    if (threadIdx.x % warp_size == 0) scratch[warp] = value;
    __syncthreads();
    value = scratch[first];
#pragma unroll
    for (int i = 1; i < team_warps; ++i) value += scratch[first + i];
  }
  return value;
}

}  // namespace

/// A block's teams take rows side by side and in step: with barriers of their own, racecheck lost track of
/// the one before the last sums. dx may be the memory of d_sum: only the thread that writes an element has
/// read it.
TANG_KERNEL __launch_bounds__(backward_threads, backward_blocks)
    rmsnorm_backward(const RmsNormBackwardParams p) {
  constexpr int teams = backward_threads / team, row_room = groups * row_step;
  __shared__ float scratch[2 * backward_threads / warp_size];
  __shared__ float shares[teams > 1 ? teams * row_room : 1];
  const int mine = threadIdx.x / team;
  const data_t* w = row_at<data_t>(p.w, 0);
  uint4 kept[one_ahead ? groups : 1];
  if constexpr (one_ahead) {
#pragma unroll
    for (int g = 0; g < groups; ++g) kept[g] = load_group(w, first_element() + g * row_step, p.dim);
  }
  const auto weight = [&](int g) {
    return one_ahead ? kept[g] : load_group(w, first_element() + g * row_step, p.dim);
  };
  float dw[groups][group_width] = {};
  const int64_t step = static_cast<int64_t>(gridDim.x) * teams;
  int64_t first = static_cast<int64_t>(blockIdx.x) * teams;
  BackwardRow row;
  if constexpr (one_ahead) row.load(p, first + mine);
  for (int turn = 0; first < p.rows; first += step, turn ^= 1) {
    const int64_t n = first + mine, dim = n < p.rows ? p.dim : 0;  // 0: zeros, and nothing is stored
    BackwardRow next;
    if constexpr (one_ahead) {
      next.load(p, n + step);
    } else {
      row.load(p, n);
    }
    float dot = 0;
#pragma unroll
    for (int g = 0; g < groups; ++g)
      dot = add_products(dot, row.upstream[g], row.input[g], weight(g), row.rstd);
    const float mean = sum_of_team(dot, scratch, turn) / static_cast<float>(p.dim);
    data_t* dx = row_at<data_t>(p.dx, n * p.dx_row);
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      store_group(
          dx, first_element() + g * row_step, dim,
          input_gradient(row.upstream[g], row.input[g], weight(g), row.residual[g], row.rstd, mean, dw[g]));
    }
    if constexpr (one_ahead) row = next;
  }
  float* partial = p.partials + blockIdx.x * p.dim;
#pragma unroll
  for (int g = 0; g < groups; ++g) {
#pragma unroll
    for (int i = 0; i < group_width; ++i) {
      const int c = first_element() + g * row_step + i;
      if constexpr (teams > 1) {
        shares[mine * row_room + c] = dw[g][i];
      } else {
        if (c < p.dim) partial[c] = dw[g][i];
      }
    }
  }
  if constexpr (teams > 1) {
    __syncthreads();
    for (int c = threadIdx.x; c < p.dim; c += backward_threads) {
      float total = 0;
#pragma unroll
      for (int i = 0; i < teams; ++i) total += shares[i * row_room + c];
      partial[c] = total;
    }
  }
}

TANG_KERNEL __launch_bounds__(backward_threads) rmsnorm_backward_long(const RmsNormBackwardParams p) {
  __shared__ float scratch[32];
  float* partial = p.partials + blockIdx.x * p.dim;
  const data_t* w = row_at<data_t>(p.w, 0);
  for (int64_t n = blockIdx.x; n < p.rows; n += gridDim.x) {
    const data_t* dy = row_at<data_t>(p.dy, n * p.dy_row);
    const data_t* x = row_at<data_t>(p.x, n * p.x_row);
    const data_t* d_sum = row_at<data_t>(p.d_sum, n * p.d_sum_row);
    data_t* dx = row_at<data_t>(p.dx, n * p.dx_row);
    const int64_t residual_dim = p.d_sum != nullptr ? p.dim : 0;
    const float rstd = p.rstd[n];
    float dot = 0;
    for (int64_t at = first_element(); at < p.dim; at += row_step) {
      dot = add_products(dot, load_group(dy, at, p.dim), load_group(x, at, p.dim), load_group(w, at, p.dim),
                         rstd);
    }
    const float mean = team_sum<team>(dot, scratch) / static_cast<float>(p.dim);
    for (int64_t at = first_element(); at < p.dim; at += row_step) {
      float dw[group_width];
#pragma unroll
      for (int i = 0; i < group_width; ++i) {
        dw[i] =
            n != blockIdx.x && at + i < p.dim ? partial[at + i] : 0.0f;  // only this thread's own elements
      }
      const uint4 group =
          input_gradient(load_group(dy, at, p.dim), load_group(x, at, p.dim), load_group(w, at, p.dim),
                         load_group(d_sum, at, residual_dim), rstd, mean, dw);
      store_group(dx, at, p.dim, group);
#pragma unroll
      for (int i = 0; i < group_width; ++i) {
        if (at + i < p.dim) partial[at + i] = dw[i];
      }
    }
  }
}
