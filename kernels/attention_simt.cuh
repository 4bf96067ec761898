// Register-tiled f32 products for the attention kernels of attention_simt.cu and attention_simt_backward.cu.
//
// A CTA of 4 warps holds a stationary tile of `tile_rows` rows and streams tiles of `tile_columns` rows past
// it. Warp w owns rows [w · 16·R/4 …): its 32 lanes are 4 row groups × 8 column groups, and each thread holds
// R rows × C columns of the score tile and R rows × (padded_dim / 8) of the outputs. A warp's rows are its
// own, so the scores go back to shared memory for the second product without a block barrier.
//
// Both products read the tiles as they lie in global memory, 16 bytes a load and free of bank conflicts:
//  - row · row (scores) along d: a tile row is an odd number of 16-byte chunks, so 8 successive rows hit 8
//    different bank groups; thread column (j, group) is tile row 8·j + group;
//  - scores · tile (outputs): a tile's rows along d, 8 lanes reading 128 successive bytes.
// The scores' own columns are stored in the order each thread holds them: stored column 4·group + k + 32·h is
// tile row 8·(k + 4·h) + group.
#pragma once

#include "attention.h"
#include "common.cuh"
#include "ptx/cp_async.cuh"

constexpr int head_dim = TANG_HEAD_DIM;          // a multiple of 4, at most 128
constexpr int tile_rows = TANG_TILE_ROWS;        // 32, 64 or 128
constexpr int tile_columns = TANG_TILE_COLUMNS;  // 32 or 64
constexpr int threads = 128;
constexpr int blocks_per_sm =
    2;  // at 8 warps, up to 255 registers a thread; the tiles of the host leave room for two

constexpr int padded_dim = (head_dim + 31) / 32 * 32;  // the outputs' width; the excess columns are zero
constexpr int tile_stride = padded_dim + 4;            // floats from a tile's row to the next
constexpr int R = tile_rows / 16, C = tile_columns / 8,
              V = padded_dim / 32;  // a thread's rows, columns, float4s
constexpr int rows_per_warp = tile_rows / 4;
constexpr int score_unroll = R * C < 64 ? 2 : 1;  // what the registers hold
constexpr float log2_e = 1.44269504f;

static_assert(head_dim % 4 == 0 && head_dim <= 128);
static_assert(tile_rows % 32 == 0 && tile_rows <= 128 && (tile_columns == 32 || tile_columns == 64));

/// Where this thread stands. Neighbouring lanes alternate between the two row groups of a half-warp and lanes
/// two apart share a row group, so the hardware serves each 16-byte load of a half-warp in one pass.
struct Place {
  int row_group, column_group, first_row;  // first_row: of the warp, in the tile

  __device__ __forceinline__ Place() {
    const int lane = threadIdx.x % warp_size;
    row_group = (lane & 1) | ((lane >> 4) << 1);
    column_group = (lane >> 1) & 7;
    first_row = __shfl_sync(all_lanes, static_cast<int>(threadIdx.x) / warp_size, 0) * rows_per_warp;
  }
  /// Tile row of this thread's row i: R successive rows a group, or 4 and 4.
  __device__ __forceinline__ int row(int i) const {
    constexpr int run = R < 4 ? R : 4;
    return first_row + row_group * run + (i % run) + i / run * 4 * run;
  }
  __device__ __forceinline__ int column(int j) const { return 8 * j + column_group; }
};

/// Sums or maxima over the 8 lanes that share a row.
__device__ __forceinline__ float row_max(float value) {
#pragma unroll
  for (int offset = 2; offset <= 8; offset *= 2)
    value = fmaxf(value, __shfl_xor_sync(all_lanes, value, offset));
  return value;
}
__device__ __forceinline__ float row_sum(float value) {
#pragma unroll
  for (int offset = 2; offset <= 8; offset *= 2) value += __shfl_xor_sync(all_lanes, value, offset);
  return value;
}

__device__ __forceinline__ float minus_infinity() { return -__int_as_float(0x7f800000); }

/// 2^x to about 2 ulp, 0 for -inf.
__device__ __forceinline__ float exp2_fast(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// Starts copying rows [first, first + count) of a [length, head_dim] matrix into a tile; rows past the end
/// become zero.
template <int count>
__device__ __forceinline__ void load_tile(float* tile, const float* matrix, int64_t row_stride, int first,
                                          int length) {
  constexpr int chunks = head_dim / 4;
  // One chunk column a thread where the width allows it, so that a loop carries one pointer and few
  // registers.
  constexpr int used = threads / chunks * chunks;
  const int first_row = static_cast<int>(threadIdx.x) / chunks,
            chunk = static_cast<int>(threadIdx.x) % chunks;
  const float* source = matrix + static_cast<int64_t>(first + first_row) * row_stride + 4 * chunk;
  uint32_t target = shared_address(tile + first_row * tile_stride + 4 * chunk);
  if (used == threads || static_cast<int>(threadIdx.x) < used) {
#pragma unroll 1
    for (int row = first_row; row < count; row += used / chunks) {
      const bool inside = first + row < length;
      copy_16_async(target, inside ? source : matrix, inside);
      source += used / chunks * row_stride;
      target += used / chunks * tile_stride * static_cast<int>(sizeof(float));
    }
  }
  __syncwarp();  // lanes whose share was smaller wait here: the products want the whole warp
}

/// Zeroes the columns past head_dim of `rows` successive tile rows, once: copies never touch them.
__device__ __forceinline__ void clear_padding(float* tiles, int rows) {
  if constexpr (padded_dim != head_dim) {
    constexpr int excess = tile_stride - head_dim;
    for (int i = threadIdx.x; i < rows * excess; i += threads)
      tiles[i / excess * tile_stride + head_dim + i % excess] = 0.0f;
  }
}

/// scores[i][j] = Σ_d a[row i][d] · b[column j][d]; both are tiles.
__device__ __forceinline__ void multiply_rows(float (&scores)[R][C], const float* a, const float* b,
                                              const Place& place) {
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int j = 0; j < C; ++j) scores[i][j] = 0.0f;
  const float* a_row = a + place.row(0) * tile_stride;
  const float* b_row = b + place.column_group * tile_stride;
#pragma unroll score_unroll
  for (int d = 0; d < head_dim; d += 4) {
    float4 right[C];
#pragma unroll
    for (int j = 0; j < C; ++j) right[j] = *reinterpret_cast<const float4*>(b_row + 8 * j * tile_stride + d);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const float4 left =
          *reinterpret_cast<const float4*>(a_row + (place.row(i) - place.row(0)) * tile_stride + d);
#pragma unroll
      for (int j = 0; j < C; ++j) scores[i][j] = fmaf(left.x, right[j].x, scores[i][j]);
#pragma unroll
      for (int j = 0; j < C; ++j) scores[i][j] = fmaf(left.y, right[j].y, scores[i][j]);
#pragma unroll
      for (int j = 0; j < C; ++j) scores[i][j] = fmaf(left.z, right[j].z, scores[i][j]);
#pragma unroll
      for (int j = 0; j < C; ++j) scores[i][j] = fmaf(left.w, right[j].w, scores[i][j]);
    }
  }
}

/// Stored chunk of column group `group`: odd row groups swap the halves of 8 chunks, so that the two rows a
/// quarter-warp touches lie in different banks.
__device__ __forceinline__ int score_chunk(int chunk, const Place& place) {
  return chunk ^ ((place.row_group & 1) * 4);
}

/// Keeps this thread's scores in the warp's rows of `tile` (tile_rows × tile_columns, no padding). The caller
/// puts a barrier before (earlier readers) and a __syncwarp after.
__device__ __forceinline__ void store_scores(float* tile, const float (&scores)[R][C], const Place& place) {
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int h = 0; h < C / 4; ++h) {
      float* target = tile + place.row(i) * tile_columns + 4 * score_chunk(place.column_group + 8 * h, place);
      *reinterpret_cast<float4*>(target) =
          make_float4(scores[i][4 * h], scores[i][4 * h + 1], scores[i][4 * h + 2], scores[i][4 * h + 3]);
    }
}

__device__ __forceinline__ float component(const float4& value, int k) {
  return k == 0 ? value.x : k == 1 ? value.y : k == 2 ? value.z : value.w;
}

/// out[row i][d] += Σ_c scores[row i][c] · b[c][d] for this thread's d = 4·column_group + 32·v + (0 … 3).
__device__ __forceinline__ void accumulate(float4 (&out)[R][V], const float* scores, const float* b,
                                           const Place& place) {
  const float* score_row = scores + place.row(0) * tile_columns;
  const float* b_column = b + 4 * place.column_group;
#pragma unroll
  for (int h = 0; h < tile_columns / 32; ++h) {
#pragma unroll 2
    for (int group = 0; group < 8; ++group) {
      const int chunk = 4 * score_chunk(group + 8 * h, place);
      float4 left[R];
#pragma unroll
      for (int i = 0; i < R; ++i)
        left[i] = *reinterpret_cast<const float4*>(score_row + (place.row(i) - place.row(0)) * tile_columns +
                                                   chunk);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float* b_row = b_column + (8 * (k + 4 * h) + group) * tile_stride;
#pragma unroll
        for (int v = 0; v < V; ++v) {
          const float4 right = *reinterpret_cast<const float4*>(b_row + 32 * v);
#pragma unroll
          for (int i = 0; i < R; ++i) {
            const float weight = component(left[i], k);
            out[i][v].x = fmaf(weight, right.x, out[i][v].x);
            out[i][v].y = fmaf(weight, right.y, out[i][v].y);
            out[i][v].z = fmaf(weight, right.z, out[i][v].z);
            out[i][v].w = fmaf(weight, right.w, out[i][v].w);
          }
        }
      }
    }
  }
}

__device__ __forceinline__ void clear(float4 (&out)[R][V]) {
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int v = 0; v < V; ++v) out[i][v] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

/// Writes out[i] · factor(i) to rows first + row(i) < length of a [length, head_dim] matrix.
template <class Factor>
__device__ __forceinline__ void store_rows(float* matrix, int64_t row_stride, int first, int length,
                                           const float4 (&out)[R][V], const Place& place,
                                           const Factor& factor) {
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int row = first + place.row(i);
    if (row >= length) continue;
    const float scale = factor(i);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int d = 4 * place.column_group + 32 * v;
      if (d >= head_dim) continue;
      *reinterpret_cast<float4*>(matrix + row * row_stride + d) =
          make_float4(out[i][v].x * scale, out[i][v].y * scale, out[i][v].z * scale, out[i][v].w * scale);
    }
  }
}
