// The sigmoid that every kernel shares, so that a gate has the same bits wherever it is applied.
#pragma once

#include "common.cuh"

/// 1 / (1 + exp(-x)). Where bf16 is stored: by the hardware's 2^x and reciprocal, whose errors are far below
/// the rounding to come. The accurate ones take some twenty instructions a value, more than the memory allows
/// a pass that reads one tensor and writes one.
__device__ __forceinline__ float sigmoid(float x) {
  if constexpr (sizeof(data_t) == 4) {
    return 1.0f / (1.0f + expf(-x));
  } else {
    constexpr float log2_e = 1.44269504088896341f;
    float power, result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -log2_e));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
    return result;
  }
}
