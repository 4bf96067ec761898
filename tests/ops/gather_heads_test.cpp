#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "lib/base/error.h"
#include "lib/ops/kv_attention.h"

namespace tang {

namespace {

constexpr int64_t length = 3, hidden = 4, heads = 2, dim = 2;  // system B's own

std::vector<float> counting(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

/// One of q, k and v of packed rows, heads-major.
std::vector<float> gathered(std::vector<float> x, int64_t width, int64_t comp_offset, int64_t head_stride) {
  CpuDevice device(1);
  std::vector<float> y(heads * length * dim, -1.0f);
  gather_heads(device, {.x = View(x.data(), Dtype::f32, {length, width}),
                        .y = View(y.data(), Dtype::f32, {heads, length, dim}),
                        .comp_offset = comp_offset,
                        .head_stride = head_stride});
  return y;
}

/// Heads-major back to rows [length, heads · dim]: x as rows that overlap.
std::vector<float> merged(std::vector<float> x) {
  CpuDevice device(1);
  std::vector<float> y(length * hidden, -1.0f);
  View rows(x.data(), Dtype::f32, {length, (heads - 1) * length * dim + dim});
  rows.strides[0] = dim;
  View target(y.data(), Dtype::f32, {heads, length, dim});
  target.strides = {dim, hidden, 1};
  gather_heads(device, {.x = rows, .y = target, .comp_offset = 0, .head_stride = length * dim});
  return y;
}

}  // namespace

TEST_CASE("gather_heads: rows to heads and back are the same rows") {
  const std::vector<float> x = counting(length * hidden), y = gathered(x, hidden, 0, 0);
  CHECK(y == std::vector<float>{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11});  // [seq, H, D] as [H, seq, D]
  CHECK(merged(y) == x);
}

TEST_CASE("gather_heads: GPT-2 keeps q, k and v apart, GPT-NeoX keeps each head's together") {
  const std::vector<float> x = counting(length * 3 * hidden);
  for (int64_t part = 0; part < 3; ++part) {
    const std::vector<float> packed = gathered(x, 3 * hidden, part * hidden, dim);
    const std::vector<float> by_head = gathered(x, 3 * hidden, part * dim, 3 * dim);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < length; ++t) {
        for (int64_t d = 0; d < dim; ++d) {
          const int64_t at = (h * length + t) * dim + d, row = t * 3 * hidden;
          CHECK(packed[at] == x[row + part * hidden + h * dim + d]);
          CHECK(by_head[at] == x[row + h * 3 * dim + part * dim + d]);
        }
      }
    }
  }
}

TEST_CASE(
    "gather_heads: a head past the row's end, negative places and 64-bit dimensions are refused by name") {
  CpuDevice device(1);
  float memory[64] = {};
  const auto refuse = [&](int64_t width, int64_t comp_offset, int64_t head_stride, const char* says) {
    CHECK_THROWS_WITH_AS(gather_heads(device, {.x = View(memory, Dtype::f32, {length, width}),
                                               .y = View(memory + 32, Dtype::f32, {heads, length, dim}),
                                               .comp_offset = comp_offset,
                                               .head_stride = head_stride}),
                         doctest::Contains(says), Error);
  };
  refuse(hidden, 1, 0, "comp_offset");
  refuse(hidden, 0, 3, "head_stride");
  refuse(hidden, -1, 0, "needs comp_offset >= 0");
  refuse(hidden, 0, -2, "needs head_stride >= 0");
  refuse(hidden, int64_t{1} << 62, 0, "<= W");
  refuse(hidden, 0, int64_t{1} << 62, "<= W");
  refuse(int64_t{1} << 32, 0, 0, "needs W < 2147483648");
  const std::vector<float> x = counting(length * hidden);
  CHECK_THROWS_WITH_AS(gather_heads(device, {.x = View(memory, Dtype::f32, {length, hidden}),
                                             .y = View(memory + 32, Dtype::f32, {heads, length + 1, dim})}),
                       doctest::Contains("dimension 1 of y is 4"), Error);
}

}  // namespace tang
