// RoPE into a cache: a thread turns (for v: copies) elements i and i + D/2 of one head of one new row.
#include "rope_append.h"

#include "groups.cuh"
#include "overlap.cuh"

namespace {

__device__ __forceinline__ int64_t place(const RopeStrides& strides, int64_t b, int64_t row, int64_t head) {
  return b * strides.batch + row * strides.row + head * strides.head;
}

}  // namespace

TANG_KERNEL rope_append(const RopeAppendParams p) {
  let_next_start();
  wait_for_previous();
  const uint32_t n = blockIdx.x / p.tiles, tile = blockIdx.x - n * p.tiles;
  const uint32_t at = tile * blockDim.x + threadIdx.x;
  const uint32_t head = at / p.half, i = at - head * p.half;
  if (head >= p.heads + 2 * p.kv_heads) return;
  const int64_t b = n / p.rows, row = n - b * p.rows;
  const int64_t position = static_cast<int64_t>(p.start[b]) + row;
  if (head >= p.heads && position >= p.capacity) return;
  const data_t* source;
  data_t* target;
  if (head < p.heads) {
    source = row_at<data_t>(p.q, place(p.q_strides, b, row, head));
    target = row_at<data_t>(p.y, place(p.y_strides, b, row, head));
  } else if (head < p.heads + p.kv_heads) {
    source = row_at<data_t>(p.k, place(p.k_strides, b, row, head - p.heads));
    target = row_at<data_t>(p.k_cache, place(p.k_cache_strides, b, position, head - p.heads));
  } else {
    const int64_t v_head = head - p.heads - p.kv_heads;
    source = row_at<data_t>(p.v, place(p.v_strides, b, row, v_head));
    target = row_at<data_t>(p.v_cache, place(p.v_cache_strides, b, position, v_head));
  }
  const data_t low = source[i], high = source[i + p.half];
  if (head >= p.heads + p.kv_heads) {
    target[i] = low;
    target[i + p.half] = high;
    return;
  }
  // Past the tables there is nothing right to do; the host keeps positions below the capacity.
  const int64_t turn = position < p.capacity ? position : p.capacity - 1;
  const float c = p.cos[turn * p.cos_row + i], s = p.sin[turn * p.sin_row + i];
  const float a = to_float(low), d = to_float(high);
  target[i] = from_float<data_t>(fmaf(a, c, -(d * s)));
  target[i + p.half] = from_float<data_t>(fmaf(d, c, a * s));
}
