// Causal grouped-query attention on bf16 tensor cores, forward: sm_80 and newer, any length, head sizes that
// are multiples of 8 up to 128. Method: FlashAttention-2 (Dao, 2023), mma.sync m16n8k16 fed by ldmatrix and
// cp.async. The backward is attention_mma_dkdv.cu; tiles, layouts and constants are in attention_tiles.cuh.
//
// Work: 4·B·H·T²·D FLOP by convention, half of it causal; what runs is whole tiles, (1 + (128 + 64) / 2T)
// times the half at 128 queries × 64 keys. Bytes: q and o once, k and v once from memory (the heads of a
// group and the query blocks of a head run side by side and share them in L2), 4 bytes of log-sum-exp a row.
// Floor: on an H200 with 16/8 heads of 64, 32768 tokens, T = 1024: 69 GFLOP · 1.09 (tiles) at mma.sync's 60 %
// of the wgmma peak, 0.6 PFLOP/s, is 0.125 ms; one exp2 a score at 16 a clock and SM is 0.08 ms beside it;
// memory is 0.05 ms.
//
// A CTA owns 128 queries of one head (4 warps of 32 rows, so that a key fragment serves two products) and
// walks the visible key blocks upwards. Grid: x = heads of one section (a group's heads adjacent), y = query
// blocks, longest first, z = sections; a section's keys and values stay in L2 while its query blocks are
// worked off.
#include "attention_tiles.cuh"

// In powers of two: the weights stay below 2^8, where bf16 and f32 sums are as exact as at 1.
constexpr int rescale_threshold = 8;

struct SoftmaxState {
  float maximum[row_tiles][2];  // raw scores; may lag behind the true maximum by the threshold
  float sum[row_tiles][2];      // of this lane's columns
};

/// Raises the running maxima where this block outgrew them, and rescales what was accumulated under the old.
/// Each row decides for itself, so no other row (or padding) can change its bits.
__device__ __forceinline__ void raise_maxima(SoftmaxState& state, Accumulator<depth_tiles>& o,
                                             const Accumulator<slice_tiles>& s, float scale_log2) {
  float correction[row_tiles][2];
  bool grew = false;
#pragma unroll
  for (int i = 0; i < row_tiles; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float block = fmaxf(s[i][0][2 * half], s[i][0][2 * half + 1]);
#pragma unroll
      for (int j = 1; j < slice_tiles; ++j)
        block = fmaxf(block, fmaxf(s[i][j][2 * half], s[i][j][2 * half + 1]));
      block = fmaxf(block, __shfl_xor_sync(all_lanes, block, 1));
      block = fmaxf(block, __shfl_xor_sync(all_lanes, block, 2));
      const float old = state.maximum[i][half];
      const bool raise = (block - old) * scale_log2 > rescale_threshold;
      correction[i][half] = raise ? exp2_approx((old - block) * scale_log2) : 1.0f;
      if (raise) state.maximum[i][half] = block;
      grew |= raise;
    }
  if (!__any_sync(all_lanes, grew)) return;
#pragma unroll
  for (int i = 0; i < row_tiles; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      state.sum[i][half] *= correction[i][half];
#pragma unroll
      for (int j = 0; j < depth_tiles; ++j) {
        o[i][j][2 * half] *= correction[i][half];
        o[i][j][2 * half + 1] *= correction[i][half];
      }
    }
}

/// s becomes exp(scale · (s - maximum)); adds to the row sums.
__device__ __forceinline__ void exponentiate(Accumulator<slice_tiles>& s, SoftmaxState& state,
                                             float scale_log2) {
#pragma unroll
  for (int i = 0; i < row_tiles; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float shift = state.maximum[i][half] * scale_log2;
#pragma unroll
      for (int j = 0; j < slice_tiles; ++j)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          s[i][j][e] = exp2_approx(fmaf(s[i][j][e], scale_log2, -shift));
          state.sum[i][half] += s[i][j][e];
        }
    }
}

/// Finishes the row sums: state.sum becomes 1 / sum. Writes log-sum-exp; `lse` is this head's [T].
__device__ __forceinline__ void finish_rows(SoftmaxState& state, float* lse, int first_row, int length,
                                            float scale) {
  const int lane = threadIdx.x % warp_size;
#pragma unroll
  for (int i = 0; i < row_tiles; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = state.sum[i][half];
      sum += __shfl_xor_sync(all_lanes, sum, 1);
      sum += __shfl_xor_sync(all_lanes, sum, 2);
      const int row = first_row + i * 16 + half * 8 + lane / 4;
      if (lane % 4 == 0 && row < length) lse[row] = state.maximum[i][half] * scale + logf(sum);
      state.sum[i][half] = 1.0f / sum;
    }
}

/// Shared memory: q [own_rows], then two buffers of k and v [stream_rows] each.
TANG_KERNEL __launch_bounds__(threads, TANG_MIN_CTAS)
    attention_forward_mma(const __grid_constant__ AttentionForwardParams p) {
  const int64_t pair = static_cast<int64_t>(blockIdx.z) * gridDim.x + blockIdx.x;
  if (pair >= static_cast<int64_t>(p.batch) * p.heads) return;
  const int b = static_cast<int>(pair / p.heads), h = static_cast<int>(pair % p.heads);
  const int kv_head = h / (p.heads / p.kv_heads);
  const int first_query = static_cast<int>(gridDim.y - 1 - blockIdx.y) * own_rows;
  const int lane = threadIdx.x % warp_size, warp_row = threadIdx.x / warp_size * warp_rows;
  const int first_row = first_query + warp_row;
  const bf16* q = head_start(static_cast<const bf16*>(p.q), p.q_strides, b, h);
  const bf16* k = head_start(static_cast<const bf16*>(p.k), p.k_strides, b, kv_head);
  const bf16* v = head_start(static_cast<const bf16*>(p.v), p.v_strides, b, kv_head);
  bf16* const tiles = reinterpret_cast<bf16*>(shared_memory);
  const uint32_t q_tile = shared_address(tiles), stream = q_tile + own_elements * 2;

  load_tile<own_rows>(q_tile, q, p.q_strides.row, first_query, p.length);
  load_tile<stream_rows>(stream, k, p.k_strides.row, 0, p.length);
  load_tile<stream_rows>(stream + stream_elements * 2, v, p.v_strides.row, 0, p.length);
  commit_copies();

  Accumulator<depth_tiles> o;
  clear<depth_tiles>(o);
  SoftmaxState state;
#pragma unroll
  for (int i = 0; i < row_tiles; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) state.maximum[i][half] = -infinity(), state.sum[i][half] = 0.0f;
  OwnRows<TANG_KEEP_ROWS> q_rows;
  const float scale_log2 = p.scale * log2_e;

  const int end = min(first_query + own_rows, p.length);
  for (int key = 0, buffer = 0; key < end; key += stream_rows, buffer ^= 1) {
    wait_copies<0>();
    __syncthreads();  // this block has landed for all, and all are done with the other buffer
    if (key == 0) q_rows.load(q_tile + block_bytes(warp_row, 0) + lane_down_right(lane));
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
      Accumulator<slice_tiles> s;
      multiply_over_depth<slice_tiles>(s, q_rows, k_tile + block_bytes(slice, 0) + lane_right_down(lane));
      if (first + slice_rows - 1 > first_row) mask_keys_in_columns<slice_tiles>(s, first_row, first);
      raise_maxima(state, o, s, scale_log2);
      exponentiate(s, state, scale_log2);
      Weights<slice_tiles> weights;
      round_to_weights<slice_tiles>(weights, s);
      multiply_over_rows<slice_tiles>(o, weights, v_tile + block_bytes(slice, 0) + lane_down_right(lane));
    }
  }

  finish_rows(state, p.lse + (static_cast<int64_t>(b) * p.heads + h) * p.length, first_row, p.length,
              p.scale);
  store_rows(o, state.sum, tiles + warp_row * pitch, head_start(static_cast<bf16*>(p.o), p.o_strides, b, h),
             p.o_strides.row, first_row, p.length);
}
