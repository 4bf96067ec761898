// Sums over one axis in an order that depends on the shape alone.
#include "reduce.h"

#include "groups.cuh"

#ifndef TANG_Y
#define TANG_Y float
#endif
typedef TANG_Y out_t;

#ifndef TANG_TEAM
#define TANG_TEAM 256
#endif

namespace {

constexpr int block_threads = 256;
constexpr int in_flight = 8;  // independent loads a thread

__device__ __forceinline__ void write_sum(out_t* y, float total, int32_t accumulate) {
  *y = from_float<out_t>(accumulate != 0 ? to_float(*y) + total : total);
}

}  // namespace

/// I > 1, or entries of R that lie apart. A thread sums one group of columns over every rows_across-th entry
/// of a chunk; the block folds its rows through shared memory.
TANG_KERNEL __launch_bounds__(block_threads) reduce_columns(const ReduceParams p) {
  __shared__ float shares[block_threads * group_width];
  const uint32_t tiles = static_cast<uint32_t>(p.tiles), chunks = static_cast<uint32_t>(p.chunks);
  const int64_t tile = blockIdx.x % tiles, part = blockIdx.x / tiles;
  const int64_t outer = static_cast<uint32_t>(part) / chunks, chunk = static_cast<uint32_t>(part) % chunks;
  const int across = p.across, rows_across = block_threads / across;
  const int64_t first_column = tile * across * group_width;
  const int64_t column = first_column + threadIdx.x % across * group_width;
  const int64_t end = min((chunk + 1) * p.chunk, p.reduced);
  const data_t* x = row_at<data_t>(p.x, outer * p.x_outer);
  float total[group_width] = {};
  for (int64_t r = chunk * p.chunk + threadIdx.x / across; r < end; r += in_flight * rows_across) {
    uint4 loaded[in_flight];
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      const int64_t at = r + i * rows_across;
      loaded[i] = load_group(x + at * p.x_row, column, at < end ? p.inner : int64_t{0});
    }
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      float values[group_width];
      unpack(values, loaded[i]);
#pragma unroll
      for (int j = 0; j < group_width; ++j) total[j] += values[j];
    }
  }
#pragma unroll
  for (int j = 0; j < group_width; ++j) shares[threadIdx.x * group_width + j] = total[j];
  __syncthreads();
  const int columns = across * group_width;  // a row of `shares`
  out_t* y = row_at<out_t>(p.y, outer * p.y_outer + chunk * p.y_chunk);
  for (int c = threadIdx.x; c < columns && first_column + c < p.inner; c += block_threads) {
    float sum = 0;
    for (int row = 0; row < rows_across; ++row) sum += shares[row * columns + c];
    write_sum(y + first_column + c, sum, p.accumulate);
  }
}

/// I = 1 and contiguous entries: TANG_TEAM threads a chunk.
TANG_KERNEL __launch_bounds__(block_threads) reduce_rows(const ReduceParams p) {
  __shared__ float scratch[32];
  constexpr int step = TANG_TEAM * group_width;
  const int64_t n = static_cast<int64_t>(blockIdx.x) * (blockDim.x / TANG_TEAM) + threadIdx.x / TANG_TEAM;
  if (n >= p.outer * p.chunks) return;  // only whole warps: a larger team is a block of its own
  const int64_t outer = n / p.chunks, chunk = n - outer * p.chunks;
  const int64_t end = min((chunk + 1) * p.chunk, p.reduced);
  const data_t* x = row_at<data_t>(p.x, outer * p.x_outer);
  float total = 0;
  for (int64_t at = chunk * p.chunk + threadIdx.x % TANG_TEAM * group_width; at < end;
       at += in_flight * step) {
    uint4 loaded[in_flight];
#pragma unroll
    for (int i = 0; i < in_flight; ++i) loaded[i] = load_group(x, at + i * step, end);
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      float values[group_width];
      unpack(values, loaded[i]);
#pragma unroll
      for (int j = 0; j < group_width; ++j) total += values[j];
    }
  }
  total = team_sum<TANG_TEAM>(total, scratch);
  if (threadIdx.x % TANG_TEAM == 0) {
    write_sum(row_at<out_t>(p.y, outer * p.y_outer + chunk * p.y_chunk), total, p.accumulate);
  }
}
