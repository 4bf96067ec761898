// Causal grouped-query attention for any head_dim up to 256, any strides and alignment, f32 or bf16 storage
// ("cuda:simple"). A CTA of 4 warps owns 16 rows, 4 a warp, and streams tiles of 32 rows past them: a lane
// scores one streamed row against the warp's four, then the lanes share out d for the weighted sums.
// Constants: TANG_T, TANG_SLICES and one of TANG_FORWARD, TANG_DELTA, TANG_QUERY_ROWS, TANG_KEY_ROWS. No
// atomics: the backward has one kernel over queries (dq) and one over keys (dk and dv, summed over the
// group's query heads).
#include "attention.h"
#include "common.cuh"

constexpr int warps = 4, rows_per_warp = 4, rows_per_block = warps * rows_per_warp;
constexpr int threads = warps * warp_size;
constexpr int slices = TANG_SLICES;             // of d, 32 wide: a lane's share of a row, 1 … 8
constexpr int stride = slices * warp_size + 1;  // floats a tile row: odd, so that 32 lanes on
                                                // 32 rows hit 32 banks
static_assert(slices >= 1 && slices <= 8 && rows_per_block == 16);  // the host counts on 16

/// One (batch, head) of a tensor: element (t, d) lies at data[t · row_stride + d].
template <class T>
struct Matrix {
  T* data;
  int64_t row_stride;
  int length, head_dim;
};
template <class Params>
__device__ __forceinline__ Matrix<const data_t> matrix_of(const Params& p, const void* tensor,
                                                          const AttentionStrides& strides, int batch,
                                                          int head) {
  return {static_cast<const data_t*>(tensor) + batch * strides.batch + head * strides.head, strides.row,
          p.length, p.head_dim};
}
template <class Params>
__device__ __forceinline__ Matrix<data_t> matrix_of(const Params& p, void* tensor,
                                                    const AttentionStrides& strides, int batch, int head) {
  return {static_cast<data_t*>(tensor) + batch * strides.batch + head * strides.head, strides.row, p.length,
          p.head_dim};
}

/// Copies rows [first, first + count) as f32; rows and columns past the end become zero.
__device__ __forceinline__ void load_rows(float* tile, const Matrix<const data_t>& matrix, int first,
                                          int count) {
  for (int i = threadIdx.x; i < count * slices * warp_size; i += threads) {
    const int row = i / (slices * warp_size), d = i % (slices * warp_size);
    const bool valid = d < matrix.head_dim && first + row < matrix.length;
    tile[row * stride + d] = valid ? to_float(matrix.data[(first + row) * matrix.row_stride + d]) : 0.0f;
  }
}

/// products[r] = rows[r] · the lane's row of the streamed tile.
__device__ __forceinline__ void score_rows(float (&products)[rows_per_warp], const float* rows,
                                           const float* tile, int lane) {
#pragma unroll
  for (int r = 0; r < rows_per_warp; ++r) products[r] = 0.0f;
#pragma unroll 8
  for (int d = 0; d < slices * warp_size; ++d) {  // zeros past head_dim
    const float value = tile[lane * stride + d];
#pragma unroll
    for (int r = 0; r < rows_per_warp; ++r) products[r] = fmaf(rows[r * stride + d], value, products[r]);
  }
}

/// out[r][s] += Σ over the 32 streamed rows of their weight (held by lane) · their element d = 32·s + lane.
__device__ __forceinline__ void add_weighted(float (&out)[rows_per_warp][slices],
                                             const float (&weights)[rows_per_warp], const float* tile,
                                             int lane) {
#pragma unroll 4
  for (int source = 0; source < warp_size; ++source) {
    float weight[rows_per_warp];
#pragma unroll
    for (int r = 0; r < rows_per_warp; ++r) weight[r] = __shfl_sync(all_lanes, weights[r], source);
#pragma unroll
    for (int s = 0; s < slices; ++s) {
      const float value = tile[source * stride + s * warp_size + lane];
#pragma unroll
      for (int r = 0; r < rows_per_warp; ++r) out[r][s] = fmaf(weight[r], value, out[r][s]);
    }
  }
}

/// Writes the warp's rows, each times its factor.
__device__ __forceinline__ void store_rows(const Matrix<data_t>& matrix, int first,
                                           const float (&out)[rows_per_warp][slices],
                                           const float (&factors)[rows_per_warp], int lane) {
#pragma unroll
  for (int r = 0; r < rows_per_warp; ++r)
#pragma unroll
    for (int s = 0; s < slices; ++s) {
      const int d = s * warp_size + lane;
      if (first + r < matrix.length && d < matrix.head_dim)
        matrix.data[(first + r) * matrix.row_stride + d] = from_float<data_t>(out[r][s] * factors[r]);
    }
}

__device__ __forceinline__ void clear(float (&out)[rows_per_warp][slices]) {
#pragma unroll
  for (int r = 0; r < rows_per_warp; ++r)
#pragma unroll
    for (int s = 0; s < slices; ++s) out[r][s] = 0.0f;
}

#ifdef TANG_FORWARD
// grid: (batch · heads, query blocks), the longest rows first
extern "C" __global__ void __launch_bounds__(threads, 1)
    attention_forward_simple(const __grid_constant__ AttentionForwardParams p) {
  extern __shared__ float shared[];
  float* const q_rows = shared;                            // [rows_per_block, stride]
  float* const k_tile = q_rows + rows_per_block * stride;  // [warp_size, stride]
  float* const v_tile = k_tile + warp_size * stride;       // [warp_size, stride]
  const int warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  const int batch = blockIdx.x / p.heads, head = blockIdx.x % p.heads,
            kv_head = head / (p.heads / p.kv_heads);
  const int block_query = static_cast<int>(gridDim.y - 1 - blockIdx.y) * rows_per_block;
  const int first_query = block_query + warp * rows_per_warp;
  load_rows(q_rows, matrix_of(p, p.q, p.q_strides, batch, head), block_query, rows_per_block);
  const Matrix<const data_t> k = matrix_of(p, p.k, p.k_strides, batch, kv_head);
  const Matrix<const data_t> v = matrix_of(p, p.v, p.v_strides, batch, kv_head);

  float maximum[rows_per_warp], sum[rows_per_warp], out[rows_per_warp][slices];
#pragma unroll
  for (int r = 0; r < rows_per_warp; ++r) maximum[r] = -__int_as_float(0x7f800000), sum[r] = 0.0f;
  clear(out);
  const int last_query = min(block_query + rows_per_block, p.length) - 1;
  for (int first_key = 0; first_key <= last_query; first_key += warp_size) {
    __syncthreads();
    load_rows(k_tile, k, first_key, warp_size);
    load_rows(v_tile, v, first_key, warp_size);
    __syncthreads();
    float weights[rows_per_warp];
    score_rows(weights, q_rows + warp * rows_per_warp * stride, k_tile, lane);
#pragma unroll
    for (int r = 0; r < rows_per_warp; ++r) {
      // The first tile shows key 0 to every row, so the maximum is finite from then on.
      const bool visible = first_key + lane <= first_query + r;
      const float score = visible ? weights[r] * p.scale : -__int_as_float(0x7f800000);
      const float new_maximum = fmaxf(maximum[r], warp_max(score));
      const float correction = expf(maximum[r] - new_maximum);
      weights[r] = expf(score - new_maximum);
      sum[r] = sum[r] * correction + warp_sum(weights[r]);
      maximum[r] = new_maximum;
#pragma unroll
      for (int s = 0; s < slices; ++s) out[r][s] *= correction;
    }
    add_weighted(out, weights, v_tile, lane);
  }

  float factors[rows_per_warp];
#pragma unroll
  for (int r = 0; r < rows_per_warp; ++r) {
    factors[r] = 1.0f / sum[r];
    if (lane == 0 && first_query + r < p.length)
      p.lse[static_cast<int64_t>(blockIdx.x) * p.length + first_query + r] = maximum[r] + logf(sum[r]);
  }
  store_rows(matrix_of(p, p.o, p.o_strides, batch, head), first_query, out, factors, lane);
}
#endif

#ifdef TANG_DELTA
// A warp per row (batch, position, head).
extern "C" __global__ void __launch_bounds__(256)
    attention_delta_simple(const __grid_constant__ AttentionBackwardParams p) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / warp_size;
  const int lane = threadIdx.x % warp_size;
  if (row >= static_cast<int64_t>(p.batch) * p.length * p.heads) return;
  const int head = static_cast<int>(row % p.heads), position = static_cast<int>(row / p.heads % p.length);
  const int batch = static_cast<int>(row / p.heads / p.length);
  const Matrix<const data_t> o = matrix_of(p, p.o, p.o_strides, batch, head);
  const Matrix<const data_t> d_o = matrix_of(p, p.d_o, p.do_strides, batch, head);
  float sum = 0.0f;
  const data_t *left = o.data + position * o.row_stride, *right = d_o.data + position * d_o.row_stride;
  for (int d = lane; d < p.head_dim; d += warp_size) sum = fmaf(to_float(left[d]), to_float(right[d]), sum);
  sum = warp_sum(sum);
  if (lane == 0) p.delta[(static_cast<int64_t>(batch) * p.heads + head) * p.length + position] = sum;
}
#endif

#ifdef TANG_QUERY_ROWS
// grid: (batch · heads, query blocks), the longest rows first
extern "C" __global__ void __launch_bounds__(threads, 1)
    attention_dq_simple(const __grid_constant__ AttentionBackwardParams p) {
  extern __shared__ float shared[];
  float* const q_rows = shared;                             // [rows_per_block, stride]
  float* const do_rows = q_rows + rows_per_block * stride;  // [rows_per_block, stride]
  float* const k_tile = do_rows + rows_per_block * stride;  // [warp_size, stride]
  float* const v_tile = k_tile + warp_size * stride;        // [warp_size, stride]
  const int warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  const int batch = blockIdx.x / p.heads, head = blockIdx.x % p.heads,
            kv_head = head / (p.heads / p.kv_heads);
  const int block_query = static_cast<int>(gridDim.y - 1 - blockIdx.y) * rows_per_block;
  const int first_query = block_query + warp * rows_per_warp;
  load_rows(q_rows, matrix_of(p, p.q, p.q_strides, batch, head), block_query, rows_per_block);
  load_rows(do_rows, matrix_of(p, p.d_o, p.do_strides, batch, head), block_query, rows_per_block);
  const Matrix<const data_t> k = matrix_of(p, p.k, p.k_strides, batch, kv_head);
  const Matrix<const data_t> v = matrix_of(p, p.v, p.v_strides, batch, kv_head);

  float lse[rows_per_warp], delta[rows_per_warp], factors[rows_per_warp], dq[rows_per_warp][slices];
#pragma unroll
  for (int r = 0; r < rows_per_warp; ++r) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * p.length + min(first_query + r, p.length - 1);
    lse[r] = p.lse[row], delta[r] = p.delta[row], factors[r] = p.scale;
  }
  clear(dq);
  const int last_query = min(block_query + rows_per_block, p.length) - 1;
  for (int first_key = 0; first_key <= last_query; first_key += warp_size) {
    __syncthreads();
    load_rows(k_tile, k, first_key, warp_size);
    load_rows(v_tile, v, first_key, warp_size);
    __syncthreads();
    float scores[rows_per_warp], dscores[rows_per_warp];
    score_rows(scores, q_rows + warp * rows_per_warp * stride, k_tile, lane);
    score_rows(dscores, do_rows + warp * rows_per_warp * stride, v_tile, lane);
#pragma unroll
    for (int r = 0; r < rows_per_warp; ++r) {
      const bool visible = first_key + lane <= first_query + r;
      dscores[r] = visible ? expf(fmaf(scores[r], p.scale, -lse[r])) * (dscores[r] - delta[r]) : 0.0f;
    }
    add_weighted(dq, dscores, k_tile, lane);
  }
  store_rows(matrix_of(p, p.dq, p.dq_strides, batch, head), first_query, dq, factors, lane);
}
#endif

#ifdef TANG_KEY_ROWS
// grid: (batch · kv_heads, key blocks); early keys have the most queries and come first
extern "C" __global__ void __launch_bounds__(threads, 1)
    attention_dkv_simple(const __grid_constant__ AttentionBackwardParams p) {
  extern __shared__ float shared[];
  float* const k_rows = shared;                            // [rows_per_block, stride]
  float* const v_rows = k_rows + rows_per_block * stride;  // [rows_per_block, stride]
  float* const q_tile = v_rows + rows_per_block * stride;  // [warp_size, stride]
  float* const do_tile = q_tile + warp_size * stride;      // [warp_size, stride]
  const int warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  const int batch = blockIdx.x / p.kv_heads, kv_head = blockIdx.x % p.kv_heads,
            group_size = p.heads / p.kv_heads;
  const int block_key = static_cast<int>(blockIdx.y) * rows_per_block;
  const int first_key = block_key + warp * rows_per_warp;
  load_rows(k_rows, matrix_of(p, p.k, p.k_strides, batch, kv_head), block_key, rows_per_block);
  load_rows(v_rows, matrix_of(p, p.v, p.v_strides, batch, kv_head), block_key, rows_per_block);

  float dk[rows_per_warp][slices], dv[rows_per_warp][slices], scales[rows_per_warp], ones[rows_per_warp];
  clear(dk);
  clear(dv);
#pragma unroll
  for (int r = 0; r < rows_per_warp; ++r) scales[r] = p.scale, ones[r] = 1.0f;
  for (int head = kv_head * group_size; head < (kv_head + 1) * group_size; ++head) {
    const Matrix<const data_t> q = matrix_of(p, p.q, p.q_strides, batch, head);
    const Matrix<const data_t> d_o = matrix_of(p, p.d_o, p.do_strides, batch, head);
    const int64_t statistics = (static_cast<int64_t>(batch) * p.heads + head) * p.length;
    for (int first_query = block_key / warp_size * warp_size; first_query < p.length;
         first_query += warp_size) {
      __syncthreads();
      load_rows(q_tile, q, first_query, warp_size);
      load_rows(do_tile, d_o, first_query, warp_size);
      __syncthreads();
      const int query = first_query + lane;
      const bool exists = query < p.length;
      const float lse = exists ? p.lse[statistics + query] : 0.0f;
      const float delta = exists ? p.delta[statistics + query] : 0.0f;
      float weights[rows_per_warp], dscores[rows_per_warp];
      score_rows(weights, k_rows + warp * rows_per_warp * stride, q_tile, lane);
      score_rows(dscores, v_rows + warp * rows_per_warp * stride, do_tile, lane);
#pragma unroll
      for (int r = 0; r < rows_per_warp; ++r) {
        const bool visible = exists && first_key + r <= query;
        weights[r] = visible ? expf(fmaf(weights[r], p.scale, -lse)) : 0.0f;
        dscores[r] = visible ? weights[r] * (dscores[r] - delta) : 0.0f;
      }
      add_weighted(dv, weights, do_tile, lane);
      add_weighted(dk, dscores, q_tile, lane);
    }
  }
  store_rows(matrix_of(p, p.dk, p.dk_strides, batch, kv_head), first_key, dk, scales, lane);
  store_rows(matrix_of(p, p.dv, p.dv_strides, batch, kv_head), first_key, dv, ones, lane);
}
#endif
