// Gradient of the queries, the last of attention's three backward kernels: see attention_mma_dkdv.cu.
#include "attention_tiles.cuh"

struct RowStatistics {
  float shift[row_tiles][2];  // lse in powers of two
  float delta[row_tiles][2];
};

__device__ __forceinline__ RowStatistics load_statistics(const AttentionBackwardParams& p, int64_t head,
                                                         int first_row) {
  RowStatistics rows;
#pragma unroll
  for (int i = 0; i < row_tiles; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + i * 16 + half * 8 + threadIdx.x % warp_size / 4;
      const bool inside = row < p.length;
      rows.shift[i][half] = inside ? p.lse[head * p.length + row] * log2_e : 0.0f;
      rows.delta[i][half] = inside ? p.delta[head * p.length + row] : 0.0f;
    }
  return rows;
}

/// dp -> ds for the warp's queries against one slice of keys.
__device__ __forceinline__ void weigh_keys(Accumulator<slice_tiles>& dp, const Accumulator<slice_tiles>& s,
                                           const RowStatistics& rows, float scale_log2) {
#pragma unroll
  for (int i = 0; i < row_tiles; ++i)
#pragma unroll
    for (int j = 0; j < slice_tiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        dp[i][j][e] = exp2_approx(fmaf(s[i][j][e], scale_log2, -rows.shift[i][e / 2])) *
                      (dp[i][j][e] - rows.delta[i][e / 2]);
}

/// Shared memory: q and d_o [own_rows], then two buffers of k and v [stream_rows] each.
TANG_KERNEL __launch_bounds__(threads, TANG_MIN_CTAS)
    attention_dq_mma(const __grid_constant__ AttentionBackwardParams p) {
  const int64_t pair = static_cast<int64_t>(blockIdx.z) * gridDim.x + blockIdx.x;
  if (pair >= static_cast<int64_t>(p.batch) * p.heads) return;
  const int b = static_cast<int>(pair / p.heads), h = static_cast<int>(pair % p.heads);
  const int kv_head = h / (p.heads / p.kv_heads);
  const int first_query = static_cast<int>(gridDim.y - 1 - blockIdx.y) * own_rows;
  const int lane = threadIdx.x % warp_size, warp_row = threadIdx.x / warp_size * warp_rows;
  const int first_row = first_query + warp_row;
  const bf16* k = head_start(static_cast<const bf16*>(p.k), p.k_strides, b, kv_head);
  const bf16* v = head_start(static_cast<const bf16*>(p.v), p.v_strides, b, kv_head);
  bf16* const tiles = reinterpret_cast<bf16*>(shared_memory);
  const uint32_t q_tile = shared_address(tiles), do_tile = q_tile + own_elements * 2;
  const uint32_t stream = q_tile + own_elements * 4;

  load_tile<own_rows>(q_tile, head_start(static_cast<const bf16*>(p.q), p.q_strides, b, h), p.q_strides.row,
                      first_query, p.length);
  load_tile<own_rows>(do_tile, head_start(static_cast<const bf16*>(p.d_o), p.do_strides, b, h),
                      p.do_strides.row, first_query, p.length);
  load_tile<stream_rows>(stream, k, p.k_strides.row, 0, p.length);
  load_tile<stream_rows>(stream + stream_elements * 2, v, p.v_strides.row, 0, p.length);
  commit_copies();

  const RowStatistics rows = load_statistics(p, static_cast<int64_t>(b) * p.heads + h, first_row);
  Accumulator<depth_tiles> dq;
  clear<depth_tiles>(dq);
  OwnRows<TANG_KEEP_ROWS> q_rows, do_rows;
  const float scale_log2 = p.scale * log2_e;

  const int end = min(first_query + own_rows, p.length);
  for (int key = 0, buffer = 0; key < end; key += stream_rows, buffer ^= 1) {
    wait_copies<0>();
    __syncthreads();  // this block has landed for all, and all are done with the other buffer
    if (key == 0) {
      q_rows.load(q_tile + block_bytes(warp_row, 0) + lane_down_right(lane));
      do_rows.load(do_tile + block_bytes(warp_row, 0) + lane_down_right(lane));
    }
    const uint32_t k_tile = stream + buffer * stream_elements * 4, v_tile = k_tile + stream_elements * 2;
    if (key + stream_rows < end) {
      const uint32_t next = stream + (buffer ^ 1) * stream_elements * 4;
      load_tile<stream_rows>(next, k, p.k_strides.row, key + stream_rows, p.length);
      load_tile<stream_rows>(next + stream_elements * 2, v, p.v_strides.row, key + stream_rows, p.length);
      commit_copies();
    }
#pragma unroll 1
    for (int slice = 0; slice < stream_rows; slice += slice_rows) {
      const int first = key + slice;
      if (first >= first_row + warp_rows) break;  // these keys and all later ones lie above the diagonal
      const uint32_t k_slice = k_tile + block_bytes(slice, 0), v_slice = v_tile + block_bytes(slice, 0);
      Accumulator<slice_tiles> s, dp;
      multiply_over_depth<slice_tiles>(s, q_rows, k_slice + lane_right_down(lane));
      multiply_over_depth<slice_tiles>(dp, do_rows, v_slice + lane_right_down(lane));
      if (first + slice_rows - 1 > first_row) mask_keys_in_columns<slice_tiles>(s, first_row, first);
      weigh_keys(dp, s, rows, scale_log2);
      Weights<slice_tiles> weights;
      round_to_weights<slice_tiles>(weights, dp);
      multiply_over_rows<slice_tiles>(dq, weights, k_slice + lane_down_right(lane));
    }
  }

  float factor[row_tiles][2];
  scale_all(factor, p.scale);
  store_rows(dq, factor, tiles + warp_row * pitch, head_start(static_cast<bf16*>(p.dq), p.dq_strides, b, h),
             p.dq_strides.row, first_row, p.length);
}
