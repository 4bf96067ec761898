// Rows walked in groups: 16 bytes of consecutive elements, the unit of every memory-bound kernel. With
// TANG_VECTOR 1 the host has made sure (lib/ops/rows.h) that every row starts on 16 bytes and holds whole
// groups; else a group is gathered element by element. The elements that a thread owns are the same either
// way, so alignment and strides change no bit of a sum.
#pragma once

#include "common.cuh"

#ifndef TANG_VECTOR
#define TANG_VECTOR 0
#endif
constexpr bool vector_rows = TANG_VECTOR != 0;
constexpr int group_width = vector_width<data_t>;

/// The row of `base` that starts `offset` elements in.
template <class T>
__device__ __forceinline__ const T* row_at(const void* base, int64_t offset) {
  return static_cast<const T*>(base) + offset;
}
template <class T>
__device__ __forceinline__ T* row_at(void* base, int64_t offset) {
  return static_cast<T*>(base) + offset;
}

/// The group from element `at` on, as it lies in memory; zeros from `length` on.
__device__ __forceinline__ uint4 load_group(const float* row, int64_t at, int64_t length) {
  if constexpr (vector_rows) {
    return at < length ? *reinterpret_cast<const uint4*>(row + at) : make_uint4(0, 0, 0, 0);
  } else {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = at + i < length ? __float_as_uint(row[at + i]) : 0u;
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
}
__device__ __forceinline__ uint4 load_group(const bf16* row, int64_t at, int64_t length) {
  if constexpr (vector_rows) {
    return at < length ? *reinterpret_cast<const uint4*>(row + at) : make_uint4(0, 0, 0, 0);
  } else {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t low = at + 2 * i < length ? row[at + 2 * i].bits : 0u;
      const uint32_t high = at + 2 * i + 1 < length ? row[at + 2 * i + 1].bits : 0u;
      words[i] = low | high << 16;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
}

__device__ __forceinline__ void store_group(float* row, int64_t at, int64_t length, uint4 group) {
  if constexpr (vector_rows) {
    if (at < length) *reinterpret_cast<uint4*>(row + at) = group;
  } else {
    const uint32_t words[4] = {group.x, group.y, group.z, group.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (at + i < length) row[at + i] = __uint_as_float(words[i]);
    }
  }
}
__device__ __forceinline__ void store_group(bf16* row, int64_t at, int64_t length, uint4 group) {
  if constexpr (vector_rows) {
    if (at < length) *reinterpret_cast<uint4*>(row + at) = group;
  } else {
    const uint32_t words[4] = {group.x, group.y, group.z, group.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (at + i < length) row[at + i].bits = static_cast<uint16_t>(words[i / 2] >> i % 2 * 16);
    }
  }
}

__device__ __forceinline__ void unpack(float (&values)[4], uint4 group) {
  values[0] = __uint_as_float(group.x), values[1] = __uint_as_float(group.y);
  values[2] = __uint_as_float(group.z), values[3] = __uint_as_float(group.w);
}
__device__ __forceinline__ void unpack(float (&values)[8], uint4 group) {
  values[0] = low_bf16(group.x), values[1] = high_bf16(group.x);
  values[2] = low_bf16(group.y), values[3] = high_bf16(group.y);
  values[4] = low_bf16(group.z), values[5] = high_bf16(group.z);
  values[6] = low_bf16(group.w), values[7] = high_bf16(group.w);
}
__device__ __forceinline__ uint4 pack(const float (&values)[4]) {
  return make_uint4(__float_as_uint(values[0]), __float_as_uint(values[1]), __float_as_uint(values[2]),
                    __float_as_uint(values[3]));
}
__device__ __forceinline__ uint4 pack(const float (&values)[8]) {
  return make_uint4(pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3]),
                    pack_bf16(values[4], values[5]), pack_bf16(values[6], values[7]));
}

/// `count` values from element `at` on, in one group of bf16 or one or two of f32.
template <int count, class T>
__device__ __forceinline__ void load_values(float (&values)[count], const T* row, int64_t at,
                                            int64_t length) {
  constexpr int width = vector_width<T>;
#pragma unroll
  for (int first = 0; first < count; first += width) {
    float part[width];
    unpack(part, load_group(row, at + first, length));
#pragma unroll
    for (int i = 0; i < width; ++i) values[first + i] = part[i];
  }
}
template <int count, class T>
__device__ __forceinline__ void store_values(T* row, int64_t at, int64_t length,
                                             const float (&values)[count]) {
  constexpr int width = vector_width<T>;
#pragma unroll
  for (int first = 0; first < count; first += width) {
    float part[width];
#pragma unroll
    for (int i = 0; i < width; ++i) part[i] = values[first + i];
    store_group(row, at + first, length, pack(part));
  }
}

/// Which group of which row an elementwise kernel's thread owns: launch_rows in lib/ops/rows.h lays the grid
/// out, `tiles` blocks a row.
struct Place {
  int64_t row, at;
};
template <int width>
__device__ __forceinline__ Place place_in(int64_t tiles) {
  const uint32_t per_row = static_cast<uint32_t>(tiles);
  const uint32_t row = blockIdx.x / per_row, tile = blockIdx.x - row * per_row;
  return {row, (static_cast<int64_t>(tile) * blockDim.x + threadIdx.x) * width};
}

/// Sum (largest) over the `team` consecutive threads that share a row: a warp, or whole warps that all call
/// it. Every thread of the team gets it; the order is fixed. `scratch` holds a float a warp of the block.
template <int team, class Fold>
__device__ __forceinline__ float team_fold(float value, float* scratch, const Fold& fold) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    value = fold(value, __shfl_xor_sync(all_lanes, value, offset));
  if constexpr (team > warp_size) {
    constexpr int warps = team / warp_size;
    const int warp = threadIdx.x / warp_size;
    __syncthreads();  // the last call's readers are done
    if (threadIdx.x % warp_size == 0) scratch[warp] = value;
    __syncthreads();
    const int first = warp / warps * warps;
    value = scratch[first];
#pragma unroll
    for (int i = 1; i < warps; ++i) value = fold(value, scratch[first + i]);
  }
  return value;
}
template <int team>
__device__ __forceinline__ float team_sum(float value, float* scratch) {
  return team_fold<team>(value, scratch, [](float a, float b) { return a + b; });
}
template <int team>
__device__ __forceinline__ float team_max(float value, float* scratch) {
  return team_fold<team>(value, scratch, [](float a, float b) { return fmaxf(a, b); });
}
