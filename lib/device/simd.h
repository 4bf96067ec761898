// Run-time instruction sets. simd([&] { loop; }) runs the loop compiled for the widest set this CPU has: the
// body is inlined into functions built for AVX-512, AVX2 and the baseline. Keep everything the body calls
// inline. Contraction (FMA) is on here; references, which judge this code, are built without it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "lib/base/dtype.h"

namespace tang {

enum class Isa { baseline, avx2, avx512 };
constexpr std::string_view name_of(Isa isa) {
  return isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "baseline";
}
Isa detect_isa();  // once a process; TANG_ISA=baseline|avx2|avx512 lowers it

#if defined(__x86_64__)
#if defined(__clang__)
#define TANG_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma"), flatten))
#else
#define TANG_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,prefer-vector-width=512"), flatten))
#endif
#define TANG_AVX2 __attribute__((target("avx2,fma"), flatten))
#else
#define TANG_AVX512
#define TANG_AVX2
#endif

template <class Body>
TANG_AVX512 void run_avx512(const Body& body) {
  body();
}
template <class Body>
TANG_AVX2 void run_avx2(const Body& body) {
  body();
}

template <class Body>
void simd(const Body& body) {
  switch (detect_isa()) {
    case Isa::avx512:
      return run_avx512(body);
    case Isa::avx2:
      return run_avx2(body);
    case Isa::baseline:
      return body();
  }
}

inline float load(const float* p, int64_t i) { return p[i]; }
inline float load(const bf16* p, int64_t i) { return static_cast<float>(p[i]); }
inline void store(float* p, int64_t i, float value) { p[i] = value; }
/// Branch-free form of bf16's constructor, so that loops vectorise.
inline void store(bf16* p, int64_t i, float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
  const uint32_t quiet = (word >> 16) | 0x40u;
  p[i].bits = static_cast<uint16_t>((word & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/// exp(x), at most 2 ulp; 0 below about -103.97, infinity above 88.72. Branch-free: it vectorises.
/// Cody-Waite reduction by ln 2 in two parts, degree-6 polynomial, exponent added in two halves (subnormals
/// too).
inline float fast_exp(float x) {
  const float clamped = std::min(std::max(x, -104.5f), 89.0f);
  const float shifted =
      clamped * 1.44269504f + 12582912.0f;  // 1.5 · 2^23: the sum's low bits hold round(x / ln 2)
  const float n = shifted - 12582912.0f;
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t exponent = static_cast<int32_t>(n);
  const int32_t half = exponent >> 1;
  const float scale1 = std::bit_cast<float>((half + 127) << 23);
  const float scale2 = std::bit_cast<float>((exponent - half + 127) << 23);
  const float result = p * scale1 * scale2;
  return x != x ? x : result;
}

inline constexpr int lanes = 16;  // partial sums of a reduction, always folded in the same order

/// Sum of term(i) for i in [0, count) with `lanes` partial sums: the order is fixed whatever the instruction
/// set.
template <class Term>
inline float sum_lanes(int64_t count, const Term& term) {
  float partial[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) partial[lane] += term(i + lane);
  }
  for (int lane = 0; i < count; ++i, ++lane) partial[lane] += term(i);
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  }
  return partial[0];
}

/// Largest term(i) for i in [0, count), or `floor` when there is none above it.
template <class Term>
inline float max_lanes(int64_t count, float floor, const Term& term) {
  float partial[lanes];
  for (float& value : partial) value = floor;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) partial[lane] = std::max(partial[lane], term(i + lane));
  }
  for (; i < count; ++i) partial[0] = std::max(partial[0], term(i));
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) partial[lane] = std::max(partial[lane], partial[lane + width]);
  }
  return partial[0];
}

}  // namespace tang
