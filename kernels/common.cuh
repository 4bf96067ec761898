// What every kernel shares: element types, vector accesses, warp and block reductions in a fixed order.
// The host defines TANG_T (float or bf16): the type of activations and weights. Arithmetic is f32.
#pragma once

#include "types.h"

struct bf16 {
  uint16_t bits;
};

#ifndef TANG_T
#define TANG_T float
#endif
typedef TANG_T data_t;

#define TANG_KERNEL extern "C" __global__ void

constexpr int warp_size = 32;
constexpr unsigned all_lanes = 0xffffffffu;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(bf16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

/// Rounds to nearest even; NaN stays NaN, overflow becomes infinity.
__device__ __forceinline__ bf16 to_bf16(float value) {
  bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}
/// Two values in one register: `low` in the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}
__device__ __forceinline__ float low_bf16(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_bf16(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

template <class T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float value) {
  return to_bf16(value);
}

/// The 32-bit address that instructions on shared memory take.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Elements of T in one 16-byte access.
template <class T>
constexpr int vector_width = 16 / sizeof(T);

/// True when `pointer` and a row stride of `stride` elements allow 16-byte accesses in every row.
template <class T>
__device__ __forceinline__ bool aligned_16(const T* pointer, int64_t stride) {
  return (reinterpret_cast<uint64_t>(pointer) | static_cast<uint64_t>(stride * sizeof(T))) % 16 == 0;
}

/// 16 bytes at `source` as f32.
__device__ __forceinline__ void load_vector(float (&values)[4], const float* source) {
  const float4 v = *reinterpret_cast<const float4*>(source);
  values[0] = v.x, values[1] = v.y, values[2] = v.z, values[3] = v.w;
}
__device__ __forceinline__ void load_vector(float (&values)[8], const bf16* source) {
  const uint4 v = *reinterpret_cast<const uint4*>(source);
  values[0] = low_bf16(v.x), values[1] = high_bf16(v.x), values[2] = low_bf16(v.y),
  values[3] = high_bf16(v.y);
  values[4] = low_bf16(v.z), values[5] = high_bf16(v.z), values[6] = low_bf16(v.w),
  values[7] = high_bf16(v.w);
}
__device__ __forceinline__ void store_vector(float* target, const float (&values)[4]) {
  *reinterpret_cast<float4*>(target) = make_float4(values[0], values[1], values[2], values[3]);
}
__device__ __forceinline__ void store_vector(bf16* target, const float (&values)[8]) {
  *reinterpret_cast<uint4*>(target) =
      make_uint4(pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3]),
                 pack_bf16(values[4], values[5]), pack_bf16(values[6], values[7]));
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(all_lanes, value, offset);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(all_lanes, value, offset));
  return value;
}

/// Sum over a one-dimensional block; every thread gets it. `scratch` holds 32 floats and is reusable
/// afterwards.
__device__ __forceinline__ float block_sum(float value, float* scratch) {
  const int warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  value = warp_sum(value);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  value = warp_sum(lane < (blockDim.x + warp_size - 1) / warp_size ? scratch[lane] : 0.0f);
  __syncthreads();
  return value;
}
__device__ __forceinline__ float block_max(float value, float* scratch) {
  const int warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  value = warp_max(value);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  value =
      warp_max(lane < (blockDim.x + warp_size - 1) / warp_size ? scratch[lane] : -__int_as_float(0x7f800000));
  __syncthreads();
  return value;
}
