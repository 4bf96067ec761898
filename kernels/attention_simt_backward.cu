// Causal grouped-query attention in f32, backward ("cuda:simt"), without atomics: row products delta = Σ o ·
// d_o, then one kernel whose CTAs own a key tile (dk and dv, over the query heads of the group) and one whose
// CTAs own a query tile (dq). Both compute the weights anew from the log-sum-exp: p = exp(scale · s − lse),
// ds = p · (d_o · v − delta). Constants and alignment as in attention_simt.cu,
// and one of TANG_DELTA, TANG_KEY_ROWS, TANG_QUERY_ROWS.
#include "attention_simt.cuh"

/// exp(scale · score − lse): at most 1 up to rounding, so it cannot overflow.
__device__ __forceinline__ float weight_of(float score, float scale, float lse) {
  return exp2_fast(fmaf(score, scale, -lse) * log2_e);
}

#ifdef TANG_DELTA
// A group of lanes per row (batch, position, head), 16 bytes a lane and step. grid: row groups.
extern "C" __global__ void __launch_bounds__(256)
    attention_delta_simt(const __grid_constant__ AttentionBackwardParams p) {
  constexpr int chunks = head_dim / 4;
  constexpr int lanes = chunks >= 32 ? 32 : chunks > 8 ? 16 : chunks > 4 ? 8 : chunks > 2 ? 4 : chunks;
  const int64_t index = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / lanes;
  const int lane = threadIdx.x % lanes;
  const int64_t row = min(index, static_cast<int64_t>(p.batch) * p.length * p.heads - 1);
  const int64_t head = row % p.heads, position = row / p.heads % p.length, batch = row / p.heads / p.length;
  const float* o = static_cast<const float*>(p.o) + batch * p.o_strides.batch + position * p.o_strides.row +
                   head * p.o_strides.head;
  const float* d_o = static_cast<const float*>(p.d_o) + batch * p.do_strides.batch +
                     position * p.do_strides.row + head * p.do_strides.head;
  float sum = 0.0f;
  for (int chunk = lane; chunk < chunks; chunk += lanes) {
    const float4 a = *reinterpret_cast<const float4*>(o + 4 * chunk);
    const float4 b = *reinterpret_cast<const float4*>(d_o + 4 * chunk);
    sum = fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, sum))));
  }
#pragma unroll
  for (int offset = lanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(all_lanes, sum, offset);
  if (lane == 0 && row == index) p.delta[(batch * p.heads + head) * p.length + position] = sum;
}
#endif

#ifdef TANG_KEY_ROWS
// grid: (batch · kv_heads, key tiles): early keys have the most queries and come first
extern "C" __global__ void __launch_bounds__(threads, blocks_per_sm)
    attention_dkv_simt(const __grid_constant__ AttentionBackwardParams p) {
  extern __shared__ __align__(16) float shared[];
  float* const k_tile = shared;                                     // [tile_rows, tile_stride]
  float* const v_tile = k_tile + tile_rows * tile_stride;           // [tile_rows, tile_stride]
  float* const q_tile = v_tile + tile_rows * tile_stride;           // [tile_columns, tile_stride]
  float* const do_tile = q_tile + tile_columns * tile_stride;       // [tile_columns, tile_stride]
  float* const scores_tile = do_tile + tile_columns * tile_stride;  // [tile_rows, tile_columns]
  float* const lse_tile = scores_tile + tile_rows * tile_columns;   // [tile_columns]
  float* const delta_tile = lse_tile + tile_columns;                // [tile_columns]

  const Place place;
  const int batch = blockIdx.x / p.kv_heads, kv_head = blockIdx.x % p.kv_heads;
  const int group_size = p.heads / p.kv_heads;
  const int first_key = static_cast<int>(blockIdx.y) * tile_rows;
  const float* q = static_cast<const float*>(p.q) + batch * p.q_strides.batch;
  const float* d_o = static_cast<const float*>(p.d_o) + batch * p.do_strides.batch;

  // The walk: for each head of the group, the query tiles from the one that holds first_key on.
  const int first_tile = first_key / tile_columns;
  const int tiles = (p.length + tile_columns - 1) / tile_columns - first_tile;
  const auto load_queries = [&](int step) {
    const int head = kv_head * group_size + step / tiles;
    const int first_query = (first_tile + step % tiles) * tile_columns;
    load_tile<tile_columns>(q_tile, q + head * p.q_strides.head, p.q_strides.row, first_query, p.length);
    if (threadIdx.x < 2 * tile_columns) {  // lse 0 past the end: those queries and their gradients are zero
      const int column = threadIdx.x % tile_columns;
      const bool valid = first_query + column < p.length;
      const float* source = threadIdx.x < tile_columns ? p.lse : p.delta;
      const int64_t offset = (static_cast<int64_t>(batch) * p.heads + head) * p.length + first_query + column;
      copy_4_async(shared_address(lse_tile + threadIdx.x), source + (valid ? offset : 0), valid);
    }
    commit_copies();
  };

  load_tile<tile_rows>(
      k_tile, static_cast<const float*>(p.k) + batch * p.k_strides.batch + kv_head * p.k_strides.head,
      p.k_strides.row, first_key, p.length);
  load_tile<tile_rows>(
      v_tile, static_cast<const float*>(p.v) + batch * p.v_strides.batch + kv_head * p.v_strides.head,
      p.v_strides.row, first_key, p.length);
  load_queries(0);
  clear_padding(k_tile, 2 * tile_rows + 2 * tile_columns);

  float4 dk[R][V], dv[R][V];
  clear(dk);
  clear(dv);
  for (int step = 0; step < group_size * tiles; ++step) {
    const int head = kv_head * group_size + step / tiles;
    const int first_query = (first_tile + step % tiles) * tile_columns;
    wait_copies<0>();
    __syncthreads();  // queries have arrived; every warp is done with the previous d_o
    load_tile<tile_columns>(do_tile, d_o + head * p.do_strides.head, p.do_strides.row, first_query, p.length);
    commit_copies();

    float weights[R][C];
    multiply_rows(weights, k_tile, q_tile, place);
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const float lse = lse_tile[place.column(j)];
#pragma unroll
      for (int i = 0; i < R; ++i) weights[i][j] = weight_of(weights[i][j], p.scale, lse);
    }
    if (first_query < first_key + place.first_row + rows_per_warp - 1) {  // a query of the tile misses a key
#pragma unroll
      for (int i = 0; i < R; ++i)
#pragma unroll
        for (int j = 0; j < C; ++j)
          if (first_key + place.row(i) > first_query + place.column(j)) weights[i][j] = 0.0f;
    }
    wait_copies<0>();
    __syncthreads();  // d_o has arrived

    float dscores[R][C];
    multiply_rows(dscores, v_tile, do_tile, place);
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const float delta = delta_tile[place.column(j)];
#pragma unroll
      for (int i = 0; i < R; ++i) dscores[i][j] = weights[i][j] * (dscores[i][j] - delta);
    }
    store_scores(scores_tile, dscores, place);
    __syncwarp();
    accumulate(dk, scores_tile, q_tile, place);
    __syncthreads();  // every warp is done with the queries
    if (step + 1 < group_size * tiles) load_queries(step + 1);
    store_scores(scores_tile, weights, place);
    __syncwarp();
    accumulate(dv, scores_tile, do_tile, place);
  }

  store_rows(static_cast<float*>(p.dk) + batch * p.dk_strides.batch + kv_head * p.dk_strides.head,
             p.dk_strides.row, first_key, p.length, dk, place, [&](int) { return p.scale; });
  store_rows(static_cast<float*>(p.dv) + batch * p.dv_strides.batch + kv_head * p.dv_strides.head,
             p.dv_strides.row, first_key, p.length, dv, place, [&](int) { return 1.0f; });
}
#endif

#ifdef TANG_QUERY_ROWS
// grid: (batch · heads, query tiles), the longest rows first
extern "C" __global__ void __launch_bounds__(threads, blocks_per_sm)
    attention_dq_simt(const __grid_constant__ AttentionBackwardParams p) {
  extern __shared__ __align__(16) float shared[];
  float* const q_tile = shared;                                    // [tile_rows, tile_stride]
  float* const do_tile = q_tile + tile_rows * tile_stride;         // [tile_rows, tile_stride]
  float* const k_tile = do_tile + tile_rows * tile_stride;         // [tile_columns, tile_stride]
  float* const v_tile = k_tile + tile_columns * tile_stride;       // [tile_columns, tile_stride]
  float* const scores_tile = v_tile + tile_columns * tile_stride;  // [tile_rows, tile_columns]

  const Place place;
  const int batch = blockIdx.x / p.heads, head = blockIdx.x % p.heads;
  const int kv_head = head / (p.heads / p.kv_heads);
  const int first_query = static_cast<int>(gridDim.y - 1 - blockIdx.y) * tile_rows;
  const float* k = static_cast<const float*>(p.k) + batch * p.k_strides.batch + kv_head * p.k_strides.head;
  const float* v = static_cast<const float*>(p.v) + batch * p.v_strides.batch + kv_head * p.v_strides.head;

  load_tile<tile_rows>(q_tile,
                       static_cast<const float*>(p.q) + batch * p.q_strides.batch + head * p.q_strides.head,
                       p.q_strides.row, first_query, p.length);
  load_tile<tile_rows>(
      do_tile, static_cast<const float*>(p.d_o) + batch * p.do_strides.batch + head * p.do_strides.head,
      p.do_strides.row, first_query, p.length);
  load_tile<tile_columns>(v_tile, v, p.v_strides.row, 0, p.length);
  commit_copies();
  clear_padding(q_tile, 2 * tile_rows + 2 * tile_columns);

  float lse[R], delta[R];
#pragma unroll
  for (int i = 0; i < R; ++i) {  // rows past the end repeat the last row's; they are not stored
    const int64_t row =
        static_cast<int64_t>(blockIdx.x) * p.length + min(first_query + place.row(i), p.length - 1);
    lse[i] = p.lse[row], delta[i] = p.delta[row];
  }
  float4 dq[R][V];
  clear(dq);
  const int last_query = min(first_query + tile_rows, p.length) - 1;
  const int first_row = first_query + place.first_row;  // the warp's
  for (int first_key = 0; first_key <= last_query; first_key += tile_columns) {
    wait_copies<0>();
    __syncthreads();  // values have arrived; every warp is done with the previous keys
    load_tile<tile_columns>(k_tile, k, p.k_strides.row, first_key, p.length);
    commit_copies();
    const bool visible = first_key <= first_row + rows_per_warp - 1;
    float dscores[R][C];
    if (visible) multiply_rows(dscores, do_tile, v_tile, place);
    wait_copies<0>();
    __syncthreads();  // keys have arrived; every warp is done with the values
    if (first_key + tile_columns <= last_query)
      load_tile<tile_columns>(v_tile, v, p.v_strides.row, first_key + tile_columns, p.length);
    commit_copies();
    if (!visible) continue;

    float weights[R][C];
    multiply_rows(weights, q_tile, k_tile, place);
    const bool diagonal = first_key + tile_columns - 1 > first_row;
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < C; ++j) {
        const float weight = weight_of(weights[i][j], p.scale, lse[i]);
        const bool masked = diagonal && first_key + place.column(j) > first_query + place.row(i);
        dscores[i][j] = masked ? 0.0f : weight * (dscores[i][j] - delta[i]);
      }
    store_scores(scores_tile, dscores, place);
    __syncwarp();
    accumulate(dq, scores_tile, k_tile, place);
  }

  store_rows(static_cast<float*>(p.dq) + batch * p.dq_strides.batch + head * p.dq_strides.head,
             p.dq_strides.row, first_query, p.length, dq, place, [&](int) { return p.scale; });
}
#endif
