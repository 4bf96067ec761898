// Plain elementwise ops: one group a thread in a plain grid, which streams fastest (copies at 90 % of the
// memory's peak); and the transpose through shared memory.
#include "elementwise.h"

#include "groups.cuh"

#ifndef TANG_Y
#define TANG_Y TANG_T
#endif
typedef TANG_Y out_t;

TANG_KERNEL cast(const ElementwiseParams p) {
  const Place place = place_in<8>(p.tiles);
  float values[8];
  load_values(values, row_at<data_t>(p.a, place.row * p.a_row), place.at, p.length);
  store_values(row_at<out_t>(p.y, place.row * p.y_row), place.at, p.length, values);
}

TANG_KERNEL add(const ElementwiseParams p) {
  const Place place = place_in<group_width>(p.tiles);
  float a[group_width], b[group_width];
  load_values(a, row_at<data_t>(p.a, place.row * p.a_row), place.at, p.length);
  load_values(b, row_at<data_t>(p.b, place.row * p.b_row), place.at, p.length);
#pragma unroll
  for (int i = 0; i < group_width; ++i) a[i] += b[i];
  store_values(row_at<data_t>(p.y, place.row * p.y_row), place.at, p.length, a);
}

TANG_KERNEL add_assign(const ElementwiseParams p) {
  const Place place = place_in<group_width>(p.tiles);
  float* target = row_at<float>(p.y, place.row * p.y_row);
  float x[group_width], y[group_width];
  load_values(x, row_at<data_t>(p.a, place.row * p.a_row), place.at, p.length);
  load_values(y, target, place.at, p.length);
#pragma unroll
  for (int i = 0; i < group_width; ++i) y[i] += x[i];
  store_values(target, place.at, p.length, y);
}

TANG_KERNEL fill(const ElementwiseParams p) {
  const Place place = place_in<group_width>(p.tiles);
  float values[group_width];
#pragma unroll
  for (int i = 0; i < group_width; ++i) values[i] = p.value;
  store_values(row_at<data_t>(p.y, place.row * p.y_row), place.at, p.length, values);
}

constexpr int tile_side = 64, transpose_threads = 256;
constexpr int slab_groups = 8;  // groups across the part of a tile row that one pass covers: 128 bytes
/// Elements between shared rows: an odd number of words, so that neither side's accesses meet in a bank.
constexpr int tile_pitch = tile_side + 4 / static_cast<int>(sizeof(data_t));

/// Group `index` of a 64 × 64 tile, in an order that gives neighbouring threads whole 128-byte segments.
struct TileGroup {
  int row, column;
};
__device__ __forceinline__ TileGroup tile_group(int index) {
  constexpr int slab = slab_groups * tile_side;
  return {index % slab / slab_groups, (index % slab_groups + index / slab * slab_groups) * group_width};
}

/// Writes a group's elements `tile_pitch` apart.
__device__ __forceinline__ void scatter(float* target, uint4 group) {
  float values[4];
  unpack(values, group);
#pragma unroll
  for (int i = 0; i < 4; ++i) target[i * tile_pitch] = values[i];
}
__device__ __forceinline__ void scatter(bf16* target, uint4 group) {
  const uint32_t words[4] = {group.x, group.y, group.z, group.w};
#pragma unroll
  for (int i = 0; i < 8; ++i) target[i * tile_pitch].bits = static_cast<uint16_t>(words[i / 2] >> i % 2 * 16);
}

/// The tile is kept transposed: shared row c holds column c of x.
TANG_KERNEL __launch_bounds__(transpose_threads) transpose(const TransposeParams p) {
  __shared__ __align__(16) data_t tile[tile_side * tile_pitch];
  const uint32_t across = static_cast<uint32_t>(p.column_tiles);
  const int64_t row0 = static_cast<int64_t>(blockIdx.x / across) * tile_side;
  const int64_t column0 = static_cast<int64_t>(blockIdx.x % across) * tile_side;
  constexpr int passes = tile_side * tile_side / group_width / transpose_threads;
  uint4 groups[passes];
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    const TileGroup at = tile_group(pass * transpose_threads + threadIdx.x);
    const int64_t row = row0 + at.row;
    groups[pass] = load_group(row_at<data_t>(p.x, row * p.x_row), column0 + at.column,
                              row < p.rows ? p.columns : int64_t{0});
  }
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    const TileGroup at = tile_group(pass * transpose_threads + threadIdx.x);
    scatter(tile + at.column * tile_pitch + at.row, groups[pass]);
  }
  __syncthreads();
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    const TileGroup at = tile_group(pass * transpose_threads + threadIdx.x);  // row and column of y
    const int64_t row = column0 + at.row;
    const uint32_t* words = reinterpret_cast<const uint32_t*>(tile + at.row * tile_pitch + at.column);
    store_group(row_at<data_t>(p.y, row * p.y_row), row0 + at.column, row < p.columns ? p.rows : int64_t{0},
                make_uint4(words[0], words[1], words[2], words[3]));
  }
}
