// Element types and the bf16 <-> f32 conversions that both back ends and the references share.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace tang {

enum class Dtype : uint8_t { f32, bf16, u32 };

/// Bytes of one element.
constexpr int64_t size_of(Dtype dtype) { return dtype == Dtype::bf16 ? 2 : 4; }

constexpr std::string_view name_of(Dtype dtype) {
  return dtype == Dtype::f32 ? "f32" : dtype == Dtype::bf16 ? "bf16" : "u32";
}

/// "f32", "bf16" or "u32"; anything else is an input error.
Dtype parse_dtype(std::string_view text);

/// Unit roundoff: half the distance from 1 to the next number (round to nearest).
constexpr double unit_roundoff(Dtype dtype) { return dtype == Dtype::bf16 ? 0x1p-8 : 0x1p-24; }

/// The upper half of an f32: 8 exponent bits, 7 fraction bits.
struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  /// Rounds to nearest even; overflow becomes infinity and NaN stays NaN (quietened).
  explicit bf16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    bits = static_cast<uint16_t>((word & 0x7fffffffu) > 0x7f800000u ? (word >> 16) | 0x40u : rounded);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

template <class T>
constexpr Dtype dtype_of = Dtype::f32;
template <>
inline constexpr Dtype dtype_of<bf16> = Dtype::bf16;
template <>
inline constexpr Dtype dtype_of<uint32_t> = Dtype::u32;

}  // namespace tang
