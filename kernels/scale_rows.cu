// C = beta · C over strided rows.
#include "common.cuh"
#include "scale_rows.h"

TANG_KERNEL scale_rows(const __grid_constant__ ScaleRowsParams p) {
  const int64_t first = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const int64_t step = gridDim.x * static_cast<int64_t>(blockDim.x);
  for (int64_t i = first; i < p.rows * p.columns; i += step) {
    data_t& value = static_cast<data_t*>(p.c)[i / p.columns * p.stride + i % p.columns];
    value = from_float<data_t>(p.beta == 0.0f ? 0.0f : p.beta * to_float(value));
  }
}
