// bf16, views and random numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "kernels/normal.h"
#include "lib/base/dtype.h"
#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/base/view.h"

using namespace tang;

TEST_CASE("base: f32 to bf16 rounds to nearest even") {
  CHECK(bf16(1.0f).bits == 0x3f80);
  CHECK(bf16(std::bit_cast<float>(0x3f808000u)).bits == 0x3f80);  // tie: to even, down
  CHECK(bf16(std::bit_cast<float>(0x3f818000u)).bits == 0x3f82);  // tie: to even, up
  CHECK(bf16(std::bit_cast<float>(0x3f808001u)).bits == 0x3f81);  // just above the tie
  CHECK(bf16(std::bit_cast<float>(0x3f807fffu)).bits == 0x3f80);  // just below
  CHECK(bf16(-257.0f).bits == bf16(-256.0f).bits);
  CHECK(bf16(-0.0f).bits == 0x8000);
  CHECK(bf16(std::bit_cast<float>(0x00008001u)).bits == 0x0001);  // a subnormal result
}

TEST_CASE("base: bf16 overflow becomes infinity and NaN stays NaN") {
  CHECK(bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(bf16(-std::numeric_limits<float>::max()).bits == 0xff80);
  CHECK(bf16(INFINITY).bits == 0x7f80);
  for (const uint32_t word :
       {0x7f800001u, 0x7fffffffu, 0xffffffffu, 0x7fc00000u}) {  // payloads that could carry
    CHECK(std::isnan(static_cast<float>(bf16(std::bit_cast<float>(word)))));
  }
}

TEST_CASE("base: every bf16 survives the way to f32 and back") {
  uint32_t changed = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    bf16 value;
    value.bits = static_cast<uint16_t>(bits);
    const float wide = static_cast<float>(value);
    changed += std::isnan(wide) ? !std::isnan(static_cast<float>(bf16(wide))) : bf16(wide).bits != bits;
  }
  CHECK(changed == 0);
}

TEST_CASE("base: dtype names parse and anything else is refused") {
  CHECK(parse_dtype("bf16") == Dtype::bf16);
  CHECK(parse_dtype(name_of(Dtype::u32)) == Dtype::u32);
  CHECK_THROWS_WITH_AS(parse_dtype("fp16"), doctest::Contains("found 'fp16'"), Error);
}

TEST_CASE("base: a slice of a view moves the pointer and keeps the strides") {
  std::vector<float> data(2 * 3 * 4);
  std::iota(data.begin(), data.end(), 0.0f);
  const View whole(data.data(), Dtype::f32, {2, 3, 4});
  CHECK(whole.packed());
  CHECK(whole.bytes() == 96);
  const View part = whole.slice(-1, 1, 3).slice(0, 1, 2);
  CHECK(part.size() == 6);
  CHECK_FALSE(part.packed());
  CHECK(part.as<float>()[2 * part.stride(1) + 1] == 1 * 12 + 2 * 4 + 2);
  CHECK(describe(part) == "f32 [1, 3, 2] with strides [12, 4, 1]");
  CHECK(whole.slice(1, 3, 3).size() == 0);
  CHECK_THROWS_AS(whole.slice(1, 2, 4), Error);
  CHECK_THROWS_AS(whole.slice(3, 0, 1), Error);
  CHECK_THROWS_WITH_AS(whole.as<uint32_t>(), doctest::Contains("expected u32"), Error);
}

TEST_CASE("base: reshape merges axes only where memory allows it") {
  std::vector<float> data(48);
  const View whole(data.data(), Dtype::f32, {2, 3, 8});
  CHECK(whole.reshape({6, 8}).stride(0) == 8);
  CHECK(whole.reshape({2, 3, 2, 4}).stride(2) == 4);
  const View half = whole.slice(2, 0, 4);  // rows of 4 with stride 8
  const View rows = half.rows();
  CHECK(rows.dim(0) == 6);
  CHECK(rows.stride(0) == 8);
  CHECK(half.reshape({6, 2, 2}).stride(0) == 8);
  CHECK_THROWS_WITH_AS(half.reshape({24}), doctest::Contains("strides do not merge"), Error);
  CHECK_THROWS_AS(whole.reshape({7, 7}), Error);
}

TEST_CASE("base: sizes past 2^63 are refused instead of wrapping") {
  CHECK_THROWS_AS(View(nullptr, Dtype::f32, {int64_t{1} << 32, int64_t{1} << 32}), Error);
  CHECK_THROWS_AS(View(nullptr, Dtype::f32, {-1}), Error);
  CHECK(checked_product({int64_t{1} << 31, int64_t{1} << 31}, "x") == int64_t{1} << 62);
}

TEST_CASE("base: Rng is Philox4x32-10 (known answers of its authors' reference)") {
  CHECK(Rng(0, 0).bits(0) == 0xe169c58d6627e8d5u);
  CHECK(Rng(0, 0).bits(1) == 0x9b00dbd8bc57ac4cu);
  // An answer that also fixes where seed, stream and index go.
  const Rng rng(0x299f31d0a4093822u, 0x0370734413198a2eu);
  CHECK(rng.bits(2 * 0x05a308d3243f6a88u) == 0x572a2f272fe11a02u);
  CHECK(rng.bits(2 * 0x05a308d3243f6a88u + 1) == 0x78d5e3252f88763bu);
}

TEST_CASE("base: normals are Box-Muller's to the last bits, and the two of a pair do not go together") {
  const Rng rng(3, 4);
  double product = 0, worst = 0;
  constexpr int pairs = 20000;
  for (uint64_t i = 0; i < pairs; ++i) {
    const double radius = std::sqrt(-2 * std::log(1 - rng.uniform(2 * i)));
    const double angle = 2 * std::numbers::pi * rng.uniform(2 * i + 1);
    worst = std::max({worst, std::abs(rng.normal(2 * i) - radius * std::cos(angle)) / radius,
                      std::abs(rng.normal(2 * i + 1) - radius * std::sin(angle)) / radius});
    product += rng.normal(2 * i) * rng.normal(2 * i + 1);
  }
  CHECK(worst < 8 * 0x1p-52);  // the angle itself is rounded at up to 2 pi
  CHECK(std::abs(product / pairs) < 4 / std::sqrt(pairs));
}

TEST_CASE("base: the logarithm and the turn behind the normals, at their ends") {
  CHECK(tang_normal::log_of(1.0) == 0);
  CHECK(tang_normal::log_of(0x1p-53) == doctest::Approx(-53 * std::log(2.0)).epsilon(1e-15));
  CHECK(tang_normal::log_of(1 - 0x1p-53) == doctest::Approx(-0x1p-53).epsilon(1e-15));
  const double quarters[5][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}, {1, 0}};
  for (int i = 0; i < 5; ++i) {
    const tang_normal::Pair turn = tang_normal::cos_sin_of_turn(i / 4.0);
    CHECK(turn.even == quarters[i][0]);
    CHECK(turn.odd == quarters[i][1]);
  }
  for (const double u : {0.1, 0.125, 0.24, 0.375, 0.49, 0.625, 0.8, 0.99, 1 - 0x1p-53}) {
    const tang_normal::Pair turn = tang_normal::cos_sin_of_turn(u);
    CHECK(std::abs(turn.even - std::cos(2 * std::numbers::pi * u)) < 6e-16);
    CHECK(std::abs(turn.odd - std::sin(2 * std::numbers::pi * u)) < 6e-16);
  }
}

TEST_CASE("base: Rng's distributions have their moments and limits") {
  const Rng rng(1, 2);
  double sum = 0, square = 0, uniform = 0;
  constexpr int count = 20000;
  for (uint64_t i = 0; i < count; ++i) {
    const double u = rng.uniform(i), n = rng.normal(i);
    CHECK_FALSE((u < 0 || u >= 1));
    uniform += u;
    sum += n;
    square += n * n;
  }
  CHECK(std::abs(uniform / count - 0.5) < 4 * std::sqrt(1.0 / 12 / count));  // four standard errors each
  CHECK(std::abs(sum / count) < 4 / std::sqrt(count));
  CHECK(std::abs(square / count - 1) < 4 * std::sqrt(2.0 / count));
  std::vector<int> seen(7);
  for (uint64_t i = 0; i < 700; ++i) ++seen.at(rng.below(i, 7));
  CHECK(*std::min_element(seen.begin(), seen.end()) > 50);
}

TEST_CASE("base: a permutation holds each item once and depends on seed and stream") {
  std::vector<uint32_t> order = permutation(1000, 5, 0);
  CHECK(order == permutation(1000, 5, 0));
  CHECK(order != permutation(1000, 5, 1));
  CHECK(order != permutation(1000, 6, 0));
  std::sort(order.begin(), order.end());
  for (uint32_t i = 0; i < 1000; ++i) CHECK(order[i] == i);
  CHECK(permutation(0, 1, 1).empty());
}
