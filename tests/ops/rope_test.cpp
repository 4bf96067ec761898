#include "lib/ops/rope.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/rng.h"

namespace tang {
namespace {

/// y = RoPE of x [1, length, 1, dim] from `position` on, with tables for `positions`.
std::vector<float> rotated(std::vector<float> x, int64_t dim, int64_t rotary_dims, int64_t position,
                           int64_t positions, bool backward = false) {
  CpuDevice device(1);
  RopeTables tables = rope_tables(positions, rotary_dims, 10000);
  const auto length = static_cast<int64_t>(x.size()) / dim;
  const View cos(tables.cos.data(), Dtype::f32, {positions, rotary_dims / 2});
  const View sin(tables.sin.data(), Dtype::f32, {positions, rotary_dims / 2});
  const View data(x.data(), Dtype::f32, {1, length, 1, dim});
  if (backward) {
    rope_backward(device, {.dy = data, .cos = cos, .sin = sin, .dx = data, .position = position});
  } else {
    rope_forward(device, {.x = data, .cos = cos, .sin = sin, .y = data, .position = position});
  }
  return x;
}

std::vector<float> random(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  const Rng rng(5);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(rng.normal(i));
  return values;
}

}  // namespace

TEST_CASE("rope: half-split pairs, as Llama's weights on the Hub expect") {
  const std::vector<float> y = rotated({1, 2, 3, 4}, 4, 4, 1, 2);
  const float expected[] = {-1.984111f, 1.959901f, 2.462378f,
                            4.019800f};  // interleaved: -1.142640, 1.922076 …
  for (int i = 0; i < 4; ++i) CHECK(y[i] == doctest::Approx(expected[i]).epsilon(1e-6));
}

TEST_CASE("rope: dims past rotary_dims pass through, bit for bit") {
  const std::vector<float> x = random(3 * 6), y = rotated(x, 6, 4, 3, 6);
  for (int t = 0; t < 3; ++t) {
    CHECK(y[6 * t] != x[6 * t]);
    CHECK(y[6 * t + 4] == x[6 * t + 4]);
    CHECK(y[6 * t + 5] == x[6 * t + 5]);
  }
}

TEST_CASE("rope: a position offset continues the sequence, and the backward turns back") {
  const std::vector<float> x = random(8 * 10), whole = rotated(x, 10, 10, 0, 8);
  const std::vector<float> tail = rotated({x.begin() + 50, x.end()}, 10, 10, 5, 8);
  CHECK(std::vector<float>(whole.begin() + 50, whole.end()) == tail);
  const std::vector<float> again = rotated(whole, 10, 10, 0, 8, true);
  for (size_t i = 0; i < x.size(); ++i) CHECK(again[i] == doctest::Approx(x[i]).epsilon(1e-5));
}

TEST_CASE("rope: each sequence may start at a position of its own, within the tables") {
  CpuDevice device(1);
  RopeTables tables = rope_tables(8, 6, 10000);
  const View cos(tables.cos.data(), Dtype::f32, {8, 3}), sin(tables.sin.data(), Dtype::f32, {8, 3});
  const std::vector<float> x = random(8 * 6), whole = rotated(x, 6, 6, 0, 8);
  std::vector<float> two(x.begin() + 12, x.begin() + 24);  // positions 2 and 3, then 6 and 7
  two.insert(two.end(), x.begin() + 36, x.end());
  std::vector<uint32_t> start = {1, 5};
  const View data(two.data(), Dtype::f32, {2, 2, 1, 6});
  RopeForward args = {.x = data, .cos = cos, .sin = sin, .y = data, .position = 1};
  args.start = View(start.data(), Dtype::u32, {2});
  rope_forward(device, args);
  CHECK(std::equal(two.begin(), two.begin() + 12, whole.begin() + 12));
  CHECK(std::equal(two.begin() + 12, two.end(), whole.begin() + 36));
  start[1] = 6;
  CHECK_THROWS_WITH_AS(rope_forward(device, args), doctest::Contains("sequence 1 ends at position 9"), Error);
}

TEST_CASE("rope: tables are rounded once from f64, far positions too") {
  const RopeTables tables = rope_tables(8192, 64, 500000);
  CHECK(tables.cos[257 * 32] == doctest::Approx(0.819306).epsilon(1e-6));
  CHECK(tables.cos[256 * 32] == doctest::Approx(-0.039791).epsilon(1e-5));
  for (const int64_t position : {1, 257, 8191}) {
    for (const int64_t i : {0, 1, 31}) {
      const double angle = static_cast<double>(position) * std::pow(500000.0, -static_cast<double>(i) / 32);
      CHECK(std::abs(tables.cos[position * 32 + i] - std::cos(angle)) <= 0x1p-24);
      CHECK(std::abs(tables.sin[position * 32 + i] - std::sin(angle)) <= 0x1p-24);
    }
  }
}

TEST_CASE("rope: odd rotary dims and a theta that is no base are refused") {
  CHECK_THROWS_WITH_AS(rope_tables(4, 59, 10000), doctest::Contains("must be even"), Error);
  CHECK_THROWS_WITH_AS(rope_tables(4, 8, 0), doctest::Contains("theta"), Error);
  CHECK_THROWS_AS(rope_tables(-1, 8, 10000), Error);
}

}  // namespace tang
