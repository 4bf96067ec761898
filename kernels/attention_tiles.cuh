// Tiles and fragments of the tensor-core attention kernels (attention_mma.cu, attention_mma_backward.cu).
// The host defines TANG_HEAD_DIM, TANG_WARPS, TANG_ROW_TILES (16-row tiles a warp owns), TANG_KEEP_ROWS
// (1: a warp's own operand rows stay in registers), TANG_STREAM_ROWS (rows of a streamed tile),
// TANG_SLICE_ROWS (rows of it worked on at a time, which bounds the registers that scores take) and
// TANG_MIN_CTAS.
//
// Every kernel has one shape: a CTA owns `own_rows` rows (queries, or keys in the dK/dV kernel), each warp
// `warp_rows` of them, and streams tiles of the other side through two buffers. A tile in shared memory is
// [rows][pitch] bf16 with the head dimension padded to a multiple of 16 by zeros; the pitch is an odd number
// of 16-byte chunks, so the 8 rows of a matrix load fall into 8 different bank groups and all addresses of an
// unrolled loop are one base plus constants.
#pragma once

#include "attention.h"
#include "common.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"

constexpr int head_dim = TANG_HEAD_DIM;
static_assert(head_dim % 8 == 0 && head_dim >= 8 && head_dim <= 128, "head_dim: a multiple of 8 up to 128");
constexpr int depth = (head_dim + 15) / 16 * 16;
constexpr int pitch = depth + 8;
constexpr int depth_steps = depth / 16;
constexpr int depth_tiles = depth / 8;

constexpr int warps = TANG_WARPS;
constexpr int threads = warps * warp_size;
constexpr int row_tiles = TANG_ROW_TILES;
constexpr int warp_rows = 16 * row_tiles;
constexpr int own_rows = warps * warp_rows;
constexpr int stream_rows = TANG_STREAM_ROWS;
constexpr int own_elements = own_rows * pitch;        // of one operand
constexpr int stream_elements = stream_rows * pitch;  // of one operand in one buffer
constexpr int slice_rows = TANG_SLICE_ROWS;
constexpr int slice_tiles = slice_rows / 8;
static_assert(stream_rows % slice_rows == 0 && slice_rows % 16 == 0);
constexpr float log2_e = 1.4426950408889634f;

extern __shared__ uint4 shared_memory[];

__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

/// Bytes from a tile's start to an element.
__device__ __forceinline__ constexpr uint32_t block_bytes(int row, int column) {
  return (row * pitch + column) * 2;
}

template <class T>
__device__ __forceinline__ T* head_start(T* base, const AttentionStrides& strides, int b, int head) {
  return base + b * strides.batch + head * strides.head;
}

/// Starts copying rows first … first + rows - 1 of a [length, head_dim] operand; rows past its end are zeros.
/// One pointer a thread, stepped from pass to pass: addresses held per chunk would cost registers.
template <int rows>
__device__ __forceinline__ void load_tile(uint32_t tile, const bf16* source, int64_t row_stride, int first,
                                          int length) {
  constexpr int chunks = depth / 8;
  constexpr int lanes = chunks > 8 ? 16 : chunks > 4 ? 8 : chunks > 2 ? 4 : 2;  // a row's; some may idle
  constexpr int pass = threads / lanes;                                         // rows
  const int row = threadIdx.x / lanes, chunk = threadIdx.x % lanes;
  const int left = depth == head_dim || chunk < head_dim / 8 ? length - first - row : 0;
  const bf16* from = source + (first + row) * row_stride + chunk * 8;
  const int64_t advance = pass * row_stride;
  tile += block_bytes(row, chunk * 8);
  if (chunks == lanes || chunk < chunks) {
#pragma unroll
    for (int done = 0; done < rows; done += pass) {
      if (rows % pass != 0 && row + done >= rows) break;
      copy_16_async(tile + block_bytes(done, 0), done < left ? from : source, done < left);
      from += advance;
    }
  }
  if (chunks < lanes) __syncwarp();  // matrix loads and products want the whole warp together
}

/// This lane's place in the four 8×8 matrices of a 16×16 block: matrices down, then right (an A operand, or a
/// transposed B operand); or right, then down (a B operand whose rows are the columns of the product). Bytes.
__device__ __forceinline__ uint32_t lane_down_right(int lane) {
  return ((lane % 16) * pitch + lane / 16 * 8) * 2;
}
__device__ __forceinline__ uint32_t lane_right_down(int lane) {
  return ((lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 8) * 2;
}

/// The rows a warp owns of an A operand, as fragments: kept, or read from shared memory at each use.
template <bool kept>
struct OwnRows;
template <>
struct OwnRows<false> {
  uint32_t address;
  __device__ __forceinline__ void load(uint32_t warp_address) { address = warp_address; }
  __device__ __forceinline__ void fragment(uint32_t (&a)[4], int tile, int step) const {
    load_matrices(a, address + block_bytes(tile * 16, step * 16));
  }
};
template <>
struct OwnRows<true> {
  uint32_t fragments[row_tiles][depth_steps][4];
  __device__ __forceinline__ void load(uint32_t warp_address) {
#pragma unroll
    for (int tile = 0; tile < row_tiles; ++tile)
#pragma unroll
      for (int step = 0; step < depth_steps; ++step)
        load_matrices(fragments[tile][step], warp_address + block_bytes(tile * 16, step * 16));
  }
  __device__ __forceinline__ void fragment(uint32_t (&a)[4], int tile, int step) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = fragments[tile][step][i];
  }
};

template <int tiles>
using Accumulator = float[row_tiles][tiles][4];  // warp_rows × 8·tiles

template <int tiles>
__device__ __forceinline__ void clear(Accumulator<tiles>& c) {
#pragma unroll
  for (int i = 0; i < row_tiles; ++i)
#pragma unroll
    for (int j = 0; j < tiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) c[i][j][e] = 0.0f;
}

/// c[own, streamed] = own rows · (streamed rows)ᵀ over the head dimension. `streamed` includes
/// lane_right_down.
template <int tiles, bool kept>
__device__ __forceinline__ void multiply_over_depth(Accumulator<tiles>& c, const OwnRows<kept>& own,
                                                    uint32_t streamed) {
  constexpr int unroll = kept              ? depth_steps
                         : depth_steps > 4 ? 4
                                           : 2;  // full unrolling spills where rows are not kept
  clear<tiles>(c);
#pragma unroll unroll
  for (int step = 0; step < depth_steps; ++step) {
    uint32_t a[row_tiles][4];
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) own.fragment(a[i], i, step);
#pragma unroll
    for (int j = 0; j < tiles; j += 2) {
      uint32_t b[4];
      load_matrices(b, streamed + block_bytes(j * 8, step * 16));
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
        mma_bf16(c[i][j], a[i], b[0], b[1]);
        mma_bf16(c[i][j + 1], a[i], b[2], b[3]);
      }
    }
  }
}

template <int tiles>
using Weights =
    uint32_t[row_tiles][tiles / 2][4];  // an accumulator of 8·tiles columns rounded to an A operand

/// The accumulator's layout is the A operand's, pair for pair: no lane needs another's values.
template <int tiles>
__device__ __forceinline__ void round_to_weights(Weights<tiles>& w, const Accumulator<tiles>& c) {
#pragma unroll
  for (int i = 0; i < row_tiles; ++i)
#pragma unroll
    for (int j = 0; j < tiles; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        w[i][j / 2][j % 2 * 2 + half] = pack_bf16(c[i][j][2 * half], c[i][j][2 * half + 1]);
}

/// c[own, head_dim] += w[own, streamed] · streamed rows. `streamed` includes lane_down_right.
template <int tiles>
__device__ __forceinline__ void multiply_over_rows(Accumulator<depth_tiles>& c, const Weights<tiles>& w,
                                                   uint32_t streamed) {
#pragma unroll
  for (int step = 0; step < tiles / 2; ++step)
#pragma unroll
    for (int j = 0; j < depth_tiles; j += 2) {
      uint32_t b[4];
      load_matrices_transposed(b, streamed + block_bytes(step * 16, j * 8));
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
        mma_bf16(c[i][j], w[i][step], b[0], b[1]);
        mma_bf16(c[i][j + 1], w[i][step], b[2], b[3]);
      }
    }
}

/// Scores of keys that come after their query become -infinity: c is [queries, keys], or [keys, queries].
template <int tiles>
__device__ __forceinline__ void mask_keys_in_columns(Accumulator<tiles>& c, int first_query, int first_key) {
  const int lane = threadIdx.x % warp_size, ahead = first_key + lane % 4 * 2 - (first_query + lane / 4);
#pragma unroll
  for (int i = 0; i < row_tiles; ++i)
#pragma unroll
    for (int j = 0; j < tiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (ahead > i * 16 + e / 2 * 8 - (j * 8 + e % 2)) c[i][j][e] = -infinity();
}
template <int tiles>
__device__ __forceinline__ void mask_keys_in_rows(Accumulator<tiles>& c, int first_key, int first_query) {
  const int lane = threadIdx.x % warp_size, ahead = first_key + lane / 4 - (first_query + lane % 4 * 2);
#pragma unroll
  for (int i = 0; i < row_tiles; ++i)
#pragma unroll
    for (int j = 0; j < tiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (ahead > j * 8 + e % 2 - (i * 16 + e / 2 * 8)) c[i][j][e] = -infinity();
}

__device__ __forceinline__ void scale_all(float (&factor)[row_tiles][2], float value) {
#pragma unroll
  for (int i = 0; i < row_tiles; ++i) factor[i][0] = factor[i][1] = value;
}

/// Writes c · factor as rows first … of `target`, none at or past `length`. `stage` is the warp's own part of
/// an operand tile that nobody reads any more; it turns the stores into whole rows.
__device__ __forceinline__ void store_rows(const Accumulator<depth_tiles>& c,
                                           const float (&factor)[row_tiles][2], bf16* stage, bf16* target,
                                           int64_t row_stride, int first, int length) {
  const int lane = threadIdx.x % warp_size;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < row_tiles; ++i)
#pragma unroll
    for (int j = 0; j < depth_tiles; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<uint32_t*>(stage + (i * 16 + half * 8 + lane / 4) * pitch + j * 8 + lane % 4 * 2) =
            pack_bf16(c[i][j][2 * half] * factor[i][half], c[i][j][2 * half + 1] * factor[i][half]);
  __syncwarp();
  constexpr int chunks = head_dim / 8;
#pragma unroll 4
  for (int item = lane; item < warp_rows * chunks; item += warp_size) {
    const int row = item / chunks, chunk = item % chunks;
    if (first + row < length)
      *reinterpret_cast<uint4*>(target + (first + row) * row_stride + chunk * 8) =
          *reinterpret_cast<const uint4*>(stage + row * pitch + chunk * 8);
  }
}
