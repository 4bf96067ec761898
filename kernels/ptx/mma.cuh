// Tensor-core products of one warp, sm_80 and newer, and the exponential that goes with them.
#pragma once

/// c[16, 8] += a[16, 16] b[16, 8], bf16 into f32. With g = lane / 4 and p = lane % 4 a lane holds
/// c: rows g, g, g + 8, g + 8, columns 2p, 2p + 1 of each; a: (row g, k 2p), (g + 8, 2p), (g, 2p + 8),
/// (g + 8, 2p + 8); b: (k 2p, column g), (k 2p + 8, column g); each a and b register is two neighbours in k.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// 2^x to about 2 ulp; results below 2^-126 are 0.
__device__ __forceinline__ float exp2_approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
