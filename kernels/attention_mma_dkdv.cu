// Causal grouped-query attention on bf16 tensor cores, backward: deterministic, no atomics, seven products
// instead of five. Three kernels in this order (one file each: they are compiled with different constants);
// tiles and constants are in attention_tiles.cuh.
//   attention_delta_mma: delta = Σ_d o · d_o.
//   attention_dkdv_mma, here: a CTA owns the keys of one block and KV head, and streams the query blocks from
//     the diagonal on, of every query head of the group in turn. All is transposed (rows are keys), so that
//     pᵀ and dsᵀ are A operands in registers.
//   attention_dq_mma: a CTA owns a query block of one head and streams the visible key blocks.
// With p = exp(scale · q kᵀ - lse), dp = d_o vᵀ, ds = p (dp - delta): dv = pᵀ d_o, dk = scale · dsᵀ q,
// dq = scale · ds k. p and ds are rounded to bf16 for the products.
//
// Work: 14·B·H·T²·D FLOP, half of it causal (the convention counts 10), plus tile waste. Bytes: delta reads o
// and d_o; both others read q, k, v, d_o once and write their gradients, L2 serves the rest. Floor on an H200
// at D = 64, 16/8 heads, 32768 tokens, T = 1024: 240 GFLOP at mma.sync's 0.6 PFLOP/s = 0.4 ms, shared-memory
// reads of fragments 0.3 ms beside it, delta 0.03 ms.
//
// Padding adds exactly nothing: rows past T are zeros in q and d_o with lse = delta = 0, hence p = 1, ds = 0;
// keys past T lie above every row's diagonal, where scores become -infinity and p exactly 0 (their own score
// of 0 against a log-sum-exp below -88 would overflow).
#include "attention_tiles.cuh"

/// One slice of queries against the warp's keys: s, scores [keys, queries] -> p, and dp -> ds. lse and delta
/// are the slice's, in shared memory.
__device__ __forceinline__ void weigh_queries(Accumulator<slice_tiles>& s, Accumulator<slice_tiles>& dp,
                                              const float* lse, const float* delta, float scale_log2) {
  const int lane = threadIdx.x % warp_size;
#pragma unroll
  for (int j = 0; j < slice_tiles; ++j) {
    const float2 row_lse = *reinterpret_cast<const float2*>(lse + j * 8 + lane % 4 * 2);
    const float2 row_delta = *reinterpret_cast<const float2*>(delta + j * 8 + lane % 4 * 2);
    const float shift[2] = {row_lse.x * log2_e, row_lse.y * log2_e};
    const float mean[2] = {row_delta.x, row_delta.y};
#pragma unroll
    for (int i = 0; i < row_tiles; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[i][j][e] = exp2_approx(fmaf(s[i][j][e], scale_log2, -shift[e % 2]));
        dp[i][j][e] = s[i][j][e] * (dp[i][j][e] - mean[e % 2]);
      }
  }
}

/// Starts copying a query block of one head: q, d_o, then lse and delta as f32 [stream_rows] each.
__device__ __forceinline__ void load_queries(const AttentionBackwardParams& p, uint32_t buffer, int b, int h,
                                             int first) {
  load_tile<stream_rows>(buffer, head_start(static_cast<const bf16*>(p.q), p.q_strides, b, h),
                         p.q_strides.row, first, p.length);
  load_tile<stream_rows>(buffer + stream_elements * 2,
                         head_start(static_cast<const bf16*>(p.d_o), p.do_strides, b, h), p.do_strides.row,
                         first, p.length);
  const int64_t head = (static_cast<int64_t>(b) * p.heads + h) * p.length;
#pragma unroll
  for (int begin = 0; begin < 2 * stream_rows; begin += threads) {
    const int item = begin + threadIdx.x, row = item % stream_rows;
    if (2 * stream_rows % threads != 0 && item >= 2 * stream_rows) break;
    const float* values = (item < stream_rows ? p.lse : p.delta) + head;
    const bool inside = first + row < p.length;
    copy_4_async(buffer + stream_elements * 4 + item * 4, inside ? values + first + row : values, inside);
  }
}

/// Shared memory: k and v [own_rows], then two buffers of a query block as load_queries fills them.
TANG_KERNEL __launch_bounds__(threads, TANG_MIN_CTAS)
    attention_dkdv_mma(const __grid_constant__ AttentionBackwardParams p) {
  constexpr int buffer_bytes = stream_elements * 4 + stream_rows * 8;
  const int64_t pair = static_cast<int64_t>(blockIdx.z) * gridDim.x + blockIdx.x;
  if (pair >= static_cast<int64_t>(p.batch) * p.kv_heads) return;
  const int b = static_cast<int>(pair / p.kv_heads), kv_head = static_cast<int>(pair % p.kv_heads);
  const int group = p.heads / p.kv_heads;
  const int block_key = static_cast<int>(blockIdx.y) * own_rows;  // the first block sees every query: longest
  const int lane = threadIdx.x % warp_size, warp_row = threadIdx.x / warp_size * warp_rows;
  const int first_key = block_key + warp_row;
  bf16* const tiles = reinterpret_cast<bf16*>(shared_memory);
  const uint32_t k_tile = shared_address(tiles), v_tile = k_tile + own_elements * 2;
  const uint32_t stream = k_tile + own_elements * 4;

  load_tile<own_rows>(k_tile, head_start(static_cast<const bf16*>(p.k), p.k_strides, b, kv_head),
                      p.k_strides.row, block_key, p.length);
  load_tile<own_rows>(v_tile, head_start(static_cast<const bf16*>(p.v), p.v_strides, b, kv_head),
                      p.v_strides.row, block_key, p.length);
  const int begin = block_key / stream_rows * stream_rows;
  load_queries(p, stream, b, kv_head * group, begin);
  commit_copies();

  Accumulator<depth_tiles> dk, dv;
  clear<depth_tiles>(dk);
  clear<depth_tiles>(dv);
  OwnRows<false> k_rows, v_rows;
  k_rows.load(k_tile + block_bytes(warp_row, 0) + lane_down_right(lane));
  v_rows.load(v_tile + block_bytes(warp_row, 0) + lane_down_right(lane));
  const float scale_log2 = p.scale * log2_e;

  int head = kv_head * group;  // of the next block
  const int end_head = head + group;
  for (int query = begin, next = begin, buffer = 0; head < end_head; query = next, buffer ^= 1) {
    next += stream_rows;
    if (next >= p.length) next = begin, ++head;
    wait_copies<0>();
    __syncthreads();  // this block has landed for all, and all are done with the other buffer
    if (head < end_head) {
      load_queries(p, stream + (buffer ^ 1) * buffer_bytes, b, head, next);
      commit_copies();
    }
    const uint32_t q_tile = stream + buffer * buffer_bytes, do_tile = q_tile + stream_elements * 2;
    const float* lse = reinterpret_cast<const float*>(tiles + own_elements * 2 + stream_elements * 2) +
                       buffer * (buffer_bytes / 4);
#pragma unroll 1
    for (int slice = 0; slice < stream_rows; slice += slice_rows) {
      const int first = query + slice;
      if (first + slice_rows <= first_key) continue;  // these queries come before all the warp's keys
      const uint32_t q_slice = q_tile + block_bytes(slice, 0), do_slice = do_tile + block_bytes(slice, 0);
      Accumulator<slice_tiles> s, dp;
      multiply_over_depth<slice_tiles>(s, k_rows, q_slice + lane_right_down(lane));
      multiply_over_depth<slice_tiles>(dp, v_rows, do_slice + lane_right_down(lane));
      if (first_key + warp_rows - 1 > first) mask_keys_in_rows<slice_tiles>(s, first_key, first);
      weigh_queries(s, dp, lse + slice, lse + stream_rows + slice, scale_log2);
      Weights<slice_tiles> weights;
      round_to_weights<slice_tiles>(weights, s);
      multiply_over_rows<slice_tiles>(dv, weights, do_slice + lane_down_right(lane));
      round_to_weights<slice_tiles>(weights, dp);
      multiply_over_rows<slice_tiles>(dk, weights, q_slice + lane_down_right(lane));
    }
  }

  float factor[row_tiles][2];
  scale_all(factor, p.scale);
  store_rows(dk, factor, tiles + warp_row * pitch,
             head_start(static_cast<bf16*>(p.dk), p.dk_strides, b, kv_head), p.dk_strides.row, first_key,
             p.length);
  scale_all(factor, 1.0f);
  store_rows(dv, factor, tiles + own_elements + warp_row * pitch,
             head_start(static_cast<bf16*>(p.dv), p.dv_strides, b, kv_head), p.dv_strides.row, first_key,
             p.length);
}
