// Softmax over rows and its backward. TANG_TEAM threads share a row and keep it in registers, TANG_GROUPS
// groups each: it is read once. The _long kernels read a row that does not fit again from the cache.
#include "softmax.h"

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
constexpr int block_threads = team > 128 ? team : 128;  // at most: launch_teams in lib/ops/rows.cpp

__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xff800000u); }

/// exp(x - largest). The difference is taken before scaling: at the largest element the result is exactly 1.
__device__ __forceinline__ float exp_below(float x, float largest) {
  return exp2f((x - largest) * 1.44269504f);
}

/// The team's row, and this thread's first element in it.
__device__ __forceinline__ int64_t team_row() {
  return static_cast<int64_t>(blockIdx.x) * (blockDim.x / team) + threadIdx.x / team;
}
__device__ __forceinline__ int first_element() { return threadIdx.x % team * group_width; }

__device__ __forceinline__ int64_t visible_columns(const SoftmaxForwardParams& p, int64_t row) {
  return p.causal != 0 && row + 1 < p.columns ? row + 1 : p.columns;
}

/// A group of x with minus infinity wherever the row does not see.
__device__ __forceinline__ void load_visible(float (&values)[group_width], const data_t* x, int64_t at,
                                             int64_t columns, int64_t visible) {
  unpack(values, load_group(x, at, at < visible ? columns : int64_t{0}));
#pragma unroll
  for (int i = 0; i < group_width; ++i) {
    if (at + i >= visible) values[i] = minus_infinity();
  }
}

}  // namespace

TANG_KERNEL __launch_bounds__(block_threads) softmax_forward(const SoftmaxForwardParams p) {
  __shared__ float scratch[32];
  const int64_t n = team_row();
  if (n >= p.rows) return;  // only whole warps: a larger team is a block of its own
  const data_t* x = row_at<data_t>(p.x, n * p.x_row);
  data_t* y = row_at<data_t>(p.y, n * p.y_row);
  const int64_t visible = visible_columns(p, n);
  float row[groups][group_width];
#pragma unroll
  for (int g = 0; g < groups; ++g)
    load_visible(row[g], x, first_element() + g * row_step, p.columns, visible);
  float largest = minus_infinity();
#pragma unroll
  for (int g = 0; g < groups; ++g) {
#pragma unroll
    for (int i = 0; i < group_width; ++i) largest = fmaxf(largest, row[g][i]);
  }
  largest = team_max<team>(largest, scratch);
  float sum = 0;
#pragma unroll
  for (int g = 0; g < groups; ++g) {
#pragma unroll
    for (int i = 0; i < group_width; ++i) sum += row[g][i] = exp_below(row[g][i], largest);
  }
  const float scale = 1.0f / team_sum<team>(sum, scratch);
#pragma unroll
  for (int g = 0; g < groups; ++g) {
#pragma unroll
    for (int i = 0; i < group_width; ++i) row[g][i] *= scale;
    store_group(y, first_element() + g * row_step, p.columns, pack(row[g]));
  }
}

TANG_KERNEL __launch_bounds__(block_threads) softmax_forward_long(const SoftmaxForwardParams p) {
  __shared__ float scratch[32];
  const int64_t n = team_row();
  const data_t* x = row_at<data_t>(p.x, n * p.x_row);
  data_t* y = row_at<data_t>(p.y, n * p.y_row);
  const int64_t visible = visible_columns(p, n);
  float values[group_width], largest = minus_infinity(), sum = 0;
  for (int64_t at = first_element(); at < visible; at += row_step) {
    load_visible(values, x, at, p.columns, visible);
#pragma unroll
    for (int i = 0; i < group_width; ++i) largest = fmaxf(largest, values[i]);
  }
  largest = team_max<team>(largest, scratch);
  for (int64_t at = first_element(); at < visible; at += row_step) {
    load_visible(values, x, at, p.columns, visible);
#pragma unroll
    for (int i = 0; i < group_width; ++i) sum += exp_below(values[i], largest);
  }
  const float scale = 1.0f / team_sum<team>(sum, scratch);
  for (int64_t at = first_element(); at < p.columns; at += row_step) {
    load_visible(values, x, at, p.columns, visible);
#pragma unroll
    for (int i = 0; i < group_width; ++i) values[i] = exp_below(values[i], largest) * scale;
    store_group(y, at, p.columns, pack(values));
  }
}

TANG_KERNEL __launch_bounds__(block_threads) softmax_backward(const SoftmaxBackwardParams p) {
  __shared__ float scratch[32];
  const int64_t n = team_row();
  if (n >= p.rows) return;
  const data_t* dy = row_at<data_t>(p.dy, n * p.dy_row);
  const data_t* y = row_at<data_t>(p.y, n * p.y_row);
  data_t* dx = row_at<data_t>(p.dx, n * p.dx_row);
  uint4 upstream[groups], probability[groups];
#pragma unroll
  for (int g = 0; g < groups; ++g) {
    upstream[g] = load_group(dy, first_element() + g * row_step, p.columns);
    probability[g] = load_group(y, first_element() + g * row_step, p.columns);
  }
  float dot = 0;
  float a[group_width], b[group_width];
#pragma unroll
  for (int g = 0; g < groups; ++g) {
    unpack(a, upstream[g]);
    unpack(b, probability[g]);
#pragma unroll
    for (int i = 0; i < group_width; ++i) dot = fmaf(a[i], b[i], dot);
  }
  dot = team_sum<team>(dot, scratch);
#pragma unroll
  for (int g = 0; g < groups; ++g) {
    unpack(a, upstream[g]);
    unpack(b, probability[g]);
#pragma unroll
    for (int i = 0; i < group_width; ++i) a[i] = b[i] * (a[i] - dot);
    store_group(dx, first_element() + g * row_step, p.columns, pack(a));
  }
}

TANG_KERNEL __launch_bounds__(block_threads) softmax_backward_long(const SoftmaxBackwardParams p) {
  __shared__ float scratch[32];
  const int64_t n = team_row();
  const data_t* dy = row_at<data_t>(p.dy, n * p.dy_row);
  const data_t* y = row_at<data_t>(p.y, n * p.y_row);
  data_t* dx = row_at<data_t>(p.dx, n * p.dx_row);
  float a[group_width], b[group_width], dot = 0;
  for (int64_t at = first_element(); at < p.columns; at += row_step) {
    unpack(a, load_group(dy, at, p.columns));
    unpack(b, load_group(y, at, p.columns));
#pragma unroll
    for (int i = 0; i < group_width; ++i) dot = fmaf(a[i], b[i], dot);
  }
  dot = team_sum<team>(dot, scratch);
  for (int64_t at = first_element(); at < p.columns; at += row_step) {
    unpack(a, load_group(dy, at, p.columns));
    unpack(b, load_group(y, at, p.columns));
#pragma unroll
    for (int i = 0; i < group_width; ++i) a[i] = b[i] * (a[i] - dot);
    store_group(dx, at, p.columns, pack(a));
  }
}
