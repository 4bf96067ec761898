// Standard normals from a counter: Philox4x32-10, then Box-Muller. The host's generator and the kernel
// include this one text and get the same bits: every operation is an IEEE double operation rounded by itself.
// So no library's logarithm or cosine, and no contraction: the kernel asks for plain roundings by name, and
// host files that include this are built with -ffp-contract=off.
#pragma once

#include "types.h"

#ifdef __CUDACC_RTC__
#define TANG_NORMAL_INLINE __device__ __forceinline__
#else
#include <bit>
#include <cmath>
// Each host file has its own: were they shared, the linker could give one file another's, built with other
// flags.
#define TANG_NORMAL_INLINE static inline
#endif

namespace tang_normal {

#ifdef __CUDACC_RTC__
TANG_NORMAL_INLINE double times(double a, double b) { return __dmul_rn(a, b); }
TANG_NORMAL_INLINE double plus(double a, double b) { return __dadd_rn(a, b); }
TANG_NORMAL_INLINE double over(double a, double b) { return __ddiv_rn(a, b); }
TANG_NORMAL_INLINE double root(double a) { return __dsqrt_rn(a); }
TANG_NORMAL_INLINE int64_t bits_of(double a) { return __double_as_longlong(a); }
TANG_NORMAL_INLINE double from_bits(int64_t a) { return __longlong_as_double(a); }
#else
TANG_NORMAL_INLINE double times(double a, double b) { return a * b; }
TANG_NORMAL_INLINE double plus(double a, double b) { return a + b; }
TANG_NORMAL_INLINE double over(double a, double b) { return a / b; }
TANG_NORMAL_INLINE double root(double a) { return std::sqrt(a); }
TANG_NORMAL_INLINE int64_t bits_of(double a) { return std::bit_cast<int64_t>(a); }
TANG_NORMAL_INLINE double from_bits(int64_t a) { return std::bit_cast<double>(a); }
#endif

struct Block {
  uint32_t words[4];
};

/// Block `index` of the sequence that `seed` and `stream` name (Salmon et al., SC 2011).
TANG_NORMAL_INLINE Block philox(uint64_t seed, uint64_t stream, uint64_t index) {
  uint32_t c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(0xD2511F53u) * c0;
    const uint64_t product1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c3 = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// 53 random bits as a number in [0, 1).
TANG_NORMAL_INLINE double unit(uint32_t low, uint32_t high) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32) | low;
  return times(static_cast<double>(static_cast<int64_t>(bits >> 11)), 0x1p-53);
}

/// Natural logarithm of a normal number, at most 2 ulp. x = 2^e m with m in [sqrt(1/2), sqrt(2)) and
/// log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716; the series is cut where a term is below 1e-18.
TANG_NORMAL_INLINE double log_of(double x) {
  constexpr int64_t root_half = 0x3fe6a09e667f3bcd;  // bits of sqrt(1/2)
  const int64_t bits = bits_of(x), exponent = (bits - root_half) >> 52;
  const double f = plus(from_bits(bits - exponent * (int64_t{1} << 52)), -1.0);
  const double s = over(f, plus(f, 2.0)), z = times(s, s), twice = plus(s, s);
  double series = 1.0 / 23;
  series = plus(times(series, z), 1.0 / 21);
  series = plus(times(series, z), 1.0 / 19);
  series = plus(times(series, z), 1.0 / 17);
  series = plus(times(series, z), 1.0 / 15);
  series = plus(times(series, z), 1.0 / 13);
  series = plus(times(series, z), 1.0 / 11);
  series = plus(times(series, z), 1.0 / 9);
  series = plus(times(series, z), 1.0 / 7);
  series = plus(times(series, z), 1.0 / 5);
  series = plus(times(series, z), 1.0 / 3);
  const double log_m = plus(times(times(twice, z), series), twice);
  return plus(times(static_cast<double>(static_cast<int32_t>(exponent)), 0.6931471805599453), log_m);
}

struct Pair {
  double even, odd;
};

/// cos and sin of 2 pi u, u in [0, 1): the nearest quarter turn is taken off exactly, the rest, at most pi /
/// 4, goes through their series up to x^16 and x^17, whose next terms are below 2e-18.
TANG_NORMAL_INLINE Pair cos_sin_of_turn(double u) {
  const double quarters = times(u, 4.0);
  const int32_t turn = static_cast<int32_t>(plus(quarters, 0.5));
  const double x = times(plus(quarters, -static_cast<double>(turn)), 1.5707963267948966);
  const double z = times(x, x);
  double c = 1.0 / 20922789888000.0;  // 1 / 16!
  c = plus(times(c, z), -1.0 / 87178291200.0);
  c = plus(times(c, z), 1.0 / 479001600.0);
  c = plus(times(c, z), -1.0 / 3628800.0);
  c = plus(times(c, z), 1.0 / 40320.0);
  c = plus(times(c, z), -1.0 / 720.0);
  c = plus(times(c, z), 1.0 / 24.0);
  c = plus(times(c, z), -0.5);
  c = plus(times(c, z), 1.0);
  double s = 1.0 / 355687428096000.0;  // 1 / 17!
  s = plus(times(s, z), -1.0 / 1307674368000.0);
  s = plus(times(s, z), 1.0 / 6227020800.0);
  s = plus(times(s, z), -1.0 / 39916800.0);
  s = plus(times(s, z), 1.0 / 362880.0);
  s = plus(times(s, z), -1.0 / 5040.0);
  s = plus(times(s, z), 1.0 / 120.0);
  s = plus(times(s, z), -1.0 / 6.0);
  s = plus(times(times(s, z), x), x);
  const bool crossed = (turn & 1) != 0;
  const double cosine = crossed ? s : c, sine = crossed ? c : s;
  return {((turn + 1) & 2) != 0 ? -cosine : cosine, (turn & 2) != 0 ? -sine : sine};
}

/// Normals 2 · pair and 2 · pair + 1 of a stream.
TANG_NORMAL_INLINE Pair normal_pair(uint64_t seed, uint64_t stream, uint64_t pair) {
  const Block block = philox(seed, stream, pair);
  const double v = plus(1.0, -unit(block.words[0], block.words[1]));  // in (0, 1]
  const double radius = root(times(-2.0, log_of(v)));
  const Pair turn = cos_sin_of_turn(unit(block.words[2], block.words[3]));
  return {times(radius, turn.even), times(radius, turn.odd)};
}

}  // namespace tang_normal

/// y[i] = std · normal i of the stream.
struct RandomNormalParams {
  float* y;       // [N]
  int64_t count;  // N
  uint64_t seed, stream;
  double std;
};
