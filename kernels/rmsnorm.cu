// RMSNorm. Forward: one block a row, the row read twice (the second time from cache).
// Backward: a fixed grid walks the rows, each block keeps its share of dw, a second kernel folds the shares
// in order.
#include "rmsnorm.h"

#include "common.cuh"

namespace {

__device__ const data_t* row_of(const void* base, int64_t row, int64_t stride) {
  return static_cast<const data_t*>(base) + row * stride;
}
__device__ data_t* row_of(void* base, int64_t row, int64_t stride) {
  return static_cast<data_t*>(base) + row * stride;
}

}  // namespace

TANG_KERNEL rmsnorm_forward(const RmsNormForwardParams p) {
  __shared__ float scratch[32];
  const int64_t n = blockIdx.x;
  const data_t* x = row_of(p.x, n, p.x_row);
  const data_t* w = static_cast<const data_t*>(p.w);
  data_t* y = row_of(p.y, n, p.y_row);
  float squares = 0;
  if (p.residual != nullptr) {
    const data_t* residual = row_of(p.residual, n, p.residual_row);
    data_t* sum = row_of(p.sum, n, p.sum_row);
    for (int64_t c = threadIdx.x; c < p.dim; c += blockDim.x) {
      sum[c] = from_float<data_t>(to_float(x[c]) + to_float(residual[c]));
      squares += to_float(sum[c]) * to_float(sum[c]);
    }
    x = sum;  // each thread reads back only what it wrote
  } else {
    for (int64_t c = threadIdx.x; c < p.dim; c += blockDim.x) squares += to_float(x[c]) * to_float(x[c]);
  }
  const float rstd = 1.0f / sqrtf(block_sum(squares, scratch) / static_cast<float>(p.dim) + p.eps);
  if (threadIdx.x == 0) p.rstd[n] = rstd;
  for (int64_t c = threadIdx.x; c < p.dim; c += blockDim.x) {
    y[c] = from_float<data_t>(to_float(x[c]) * rstd * to_float(w[c]));
  }
}

TANG_KERNEL rmsnorm_backward(const RmsNormBackwardParams p) {
  __shared__ float scratch[32];
  float* partial = p.partials + blockIdx.x * p.dim;
  const data_t* w = static_cast<const data_t*>(p.w);
  for (int64_t c = threadIdx.x; c < p.dim; c += blockDim.x) partial[c] = 0;
  for (int64_t n = blockIdx.x; n < p.rows; n += gridDim.x) {
    const data_t* x = row_of(p.x, n, p.x_row);
    const data_t* dy = row_of(p.dy, n, p.dy_row);
    data_t* dx = row_of(p.dx, n, p.dx_row);
    const float rstd = p.rstd[n];
    float dot = 0;
    for (int64_t c = threadIdx.x; c < p.dim; c += blockDim.x) {
      dot += to_float(w[c]) * to_float(dy[c]) * (to_float(x[c]) * rstd);
    }
    const float mean = block_sum(dot, scratch) / static_cast<float>(p.dim);
    for (int64_t c = threadIdx.x; c < p.dim; c += blockDim.x) {
      const float unit = to_float(x[c]) * rstd, g = to_float(dy[c]);
      const float residual = p.d_sum == nullptr ? 0.0f : to_float(row_of(p.d_sum, n, p.d_sum_row)[c]);
      dx[c] = from_float<data_t>(rstd * (to_float(w[c]) * g - unit * mean) + residual);
      partial[c] += g * unit;
    }
  }
}

TANG_KERNEL rmsnorm_fold(const RmsNormFoldParams p) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= p.dim) return;
  float total = 0;
  for (int64_t part = 0; part < p.parts; ++part) total += p.partials[part * p.dim + c];
  p.dw[c] = p.accumulate != 0 ? p.dw[c] + total : total;
}
