// The online softmax of attention_sm90.cu, on scores in wgmma's accumulator layout: a row lies in a quad, and
// a thread holds parts of two rows. The peak of a row is not its largest score so far but one that no score
// exceeds by more than 2^slack: P stays below that, o and the sum stay consistent, and the output rarely
// needs rescaling (the threshold of FlashAttention-4).
#pragma once

#include "common.cuh"
#include "ptx/tma.cuh"

constexpr float slack = 8;

/// Running statistics of the two rows a thread shares with its quad.
struct Rows {
  float peak[2] = {-1e30f, -1e30f};  // scaled, in units of log2; finite, so that no difference is NaN
  float sum[2] = {0, 0};             // this thread's part of Σ 2^(score - peak)
  int limit[2];                      // bits of the raw score that asks for a new peak
};

/// Moves the peaks to the largest scores so far and returns the factors for what came before.
template <int Scores>
__device__ __forceinline__ void raise_peaks(const float (&s)[Scores], Rows& rows, float (&factor)[2],
                                            float scale_log2, float unscale_log2) {
  float most[2] = {s[0], s[2]};
#pragma unroll
  for (int i = 0; i < Scores; ++i) most[(i >> 1) & 1] = fmaxf(most[(i >> 1) & 1], s[i]);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    most[r] = fmaxf(most[r], __shfl_xor_sync(all_lanes, most[r], 1));
    most[r] = fmaxf(most[r], __shfl_xor_sync(all_lanes, most[r], 2));
    const float peak = fmaxf(rows.peak[r], most[r] * scale_log2);
    factor[r] = exp2_fast(rows.peak[r] - peak);
    rows.peak[r] = peak;
    rows.sum[r] *= factor[r];
    const float limit = (peak + slack) * unscale_log2;
    rows.limit[r] = limit >= 0 ? __float_as_int(limit) : static_cast<int>(0x80000000);
  }
}

/// Whether some score of the warp may exceed what its row's peak allows. Floats compare as integers where
/// the limit is not negative (else the answer is yes), and of integers Hopper takes three at a time.
template <int Scores>
__device__ __forceinline__ bool outgrown(const float (&s)[Scores], const Rows& rows) {
  int most[2] = {__float_as_int(s[0]), __float_as_int(s[2])};
#pragma unroll
  for (int i = 0; i < Scores; i += 4) {
    most[0] = max(max(most[0], __float_as_int(s[i])), __float_as_int(s[i + 1]));
    most[1] = max(max(most[1], __float_as_int(s[i + 2])), __float_as_int(s[i + 3]));
  }
  return __any_sync(all_lanes, most[0] >= rows.limit[0] || most[1] >= rows.limit[1]);
}

/// Turns raw scores From … To - 1 into probabilities, relative to their row's peak.
template <int From, int To, int Scores>
__device__ __forceinline__ void exponentials(float (&s)[Scores], Rows& rows, float scale_log2) {
#pragma unroll
  for (int i = From; i < To; ++i) {
    s[i] = exp2_fast(s[i] * scale_log2 - rows.peak[(i >> 1) & 1]);
    rows.sum[(i >> 1) & 1] += s[i];
  }
}

/// 0, which the compiler does not know: no sum of exponentials is negative, and the NaN that arithmetic makes
/// has a clear sign. A wait that adds this to its parity comes after the exponentials so far. NOTE: without
/// such a wait between them ptxas moves wgmma.wait_group up beyond the exponentials, and no product runs
/// beside them.
__device__ __forceinline__ uint32_t negative(const Rows& rows) {
  return (__float_as_uint(rows.sum[0]) | __float_as_uint(rows.sum[1])) >> 31;
}

/// Probabilities of the keys in s as bf16 pairs in A-operand layout; those of later keys of the block are 0.
template <int Scores, int Steps>
__device__ __forceinline__ void pack_probabilities(const float (&s)[Scores],
                                                   uint32_t (&probability)[Steps][4]) {
#pragma unroll
  for (int step = 0; step < Steps; ++step) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      probability[step][q] = 8 * step < Scores ? pack_bf16(s[8 * step + 2 * q], s[8 * step + 2 * q + 1]) : 0;
    }
  }
}
