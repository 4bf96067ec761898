// Causal grouped-query attention in f32, forward ("cuda:simt"): tiled online softmax (Dao, FlashAttention-2,
// 2023) on FFMA units. A CTA owns one tile of query rows of one head and walks the key tiles up to its
// diagonal. Constants: TANG_HEAD_DIM, TANG_TILE_ROWS, TANG_TILE_COLUMNS. Strides are multiples of 4 elements
// and pointers aligned to 16 bytes.
#include "attention_simt.cuh"

namespace {

/// Running softmax of this thread's rows, in units of raw scores (before `scale`).
struct RowStatistics {
  float maximum[R];
  float sum[R];  // this thread's columns only, until the end
};

/// Turns raw scores into weights exp(scale · (score − row maximum)) and rescales `out` to the new maximum.
__device__ __forceinline__ void online_softmax(float (&scores)[R][C], float4 (&out)[R][V],
                                               RowStatistics& rows, float exponent_scale) {
#pragma unroll
  for (int i = 0; i < R; ++i) {
    float maximum = rows.maximum[i];
#pragma unroll
    for (int j = 0; j < C; ++j) maximum = fmaxf(maximum, scores[i][j]);
    maximum = row_max(maximum);
    const float correction = exp2_fast((rows.maximum[i] - maximum) * exponent_scale);
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < C; ++j) {
      scores[i][j] = exp2_fast((scores[i][j] - maximum) * exponent_scale);
      sum += scores[i][j];
    }
    rows.sum[i] = rows.sum[i] * correction + sum;
    rows.maximum[i] = maximum;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      out[i][v].x *= correction, out[i][v].y *= correction;
      out[i][v].z *= correction, out[i][v].w *= correction;
    }
  }
}

}  // namespace

// grid: (batch · heads, query tiles), the longest rows first
extern "C" __global__ void __launch_bounds__(threads, blocks_per_sm)
    attention_forward_simt(const __grid_constant__ AttentionForwardParams p) {
  extern __shared__ __align__(16) float shared[];
  float* const q_tile = shared;                                    // [tile_rows, tile_stride]
  float* const k_tile = q_tile + tile_rows * tile_stride;          // [tile_columns, tile_stride]
  float* const v_tile = k_tile + tile_columns * tile_stride;       // [tile_columns, tile_stride]
  float* const scores_tile = v_tile + tile_columns * tile_stride;  // [tile_rows, tile_columns]

  const Place place;
  const int batch = blockIdx.x / p.heads, head = blockIdx.x % p.heads;
  const int kv_head = head / (p.heads / p.kv_heads);
  const int first_query = static_cast<int>(gridDim.y - 1 - blockIdx.y) * tile_rows;
  const float* q = static_cast<const float*>(p.q) + batch * p.q_strides.batch + head * p.q_strides.head;
  const float* k = static_cast<const float*>(p.k) + batch * p.k_strides.batch + kv_head * p.k_strides.head;
  const float* v = static_cast<const float*>(p.v) + batch * p.v_strides.batch + kv_head * p.v_strides.head;

  load_tile<tile_rows>(q_tile, q, p.q_strides.row, first_query, p.length);
  load_tile<tile_columns>(k_tile, k, p.k_strides.row, 0, p.length);
  commit_copies();
  clear_padding(q_tile, tile_rows + 2 * tile_columns);

  RowStatistics rows;
#pragma unroll
  for (int i = 0; i < R; ++i) rows.maximum[i] = minus_infinity(), rows.sum[i] = 0.0f;
  float4 out[R][V];
  clear(out);

  const int last_query = min(first_query + tile_rows, p.length) - 1;
  const int first_row = first_query + place.first_row;  // the warp's
  for (int first_key = 0; first_key <= last_query; first_key += tile_columns) {
    wait_copies<0>();
    __syncthreads();  // keys have arrived; every warp is done with the previous values
    load_tile<tile_columns>(v_tile, v, p.v_strides.row, first_key, p.length);
    commit_copies();
    const bool visible =
        first_key <= first_row + rows_per_warp - 1;  // else no row of this warp sees these keys
    float scores[R][C];
    if (visible) {
      multiply_rows(scores, q_tile, k_tile, place);
      if (first_key + tile_columns - 1 > first_row) {
#pragma unroll
        for (int i = 0; i < R; ++i)
#pragma unroll
          for (int j = 0; j < C; ++j)
            if (first_key + place.column(j) > first_query + place.row(i)) scores[i][j] = minus_infinity();
      }
    }
    wait_copies<0>();
    __syncthreads();  // values have arrived; every warp is done with the keys
    if (first_key + tile_columns <= last_query)
      load_tile<tile_columns>(k_tile, k, p.k_strides.row, first_key + tile_columns, p.length);
    commit_copies();
    if (visible) {
      online_softmax(scores, out, rows, p.scale * log2_e);
      store_scores(scores_tile, scores, place);
      __syncwarp();
      accumulate(out, scores_tile, v_tile, place);
    }
  }

  float total[R];
#pragma unroll
  for (int i = 0; i < R; ++i) total[i] = row_sum(rows.sum[i]);
  float* o = static_cast<float*>(p.o) + batch * p.o_strides.batch + head * p.o_strides.head;
  store_rows(o, p.o_strides.row, first_query, p.length, out, place, [&](int i) { return 1.0f / total[i]; });
  if (place.column_group != 0) return;
  float* lse = p.lse + static_cast<int64_t>(blockIdx.x) * p.length;
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int row = first_query + place.row(i);
    if (row < p.length) lse[row] = rows.maximum[i] * p.scale + logf(total[i]);
  }
}
