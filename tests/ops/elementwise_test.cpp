#include "lib/ops/elementwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tang {

TEST_CASE("cast: ties go to even, NaN stays NaN, what is too large becomes infinity, and back is exact") {
  CpuDevice device(1);
  constexpr float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {1, 1 + 0x1p-8f, 1 + 3 * 0x1p-8f, std::nanf(""), 3.4e38f, -inf, -0.0f, 0x1p-133f};
  std::vector<bf16> y(x.size());
  std::vector<float> back(x.size());
  const View wide(x.data(), Dtype::f32, {2, 4}), narrow(y.data(), Dtype::bf16, {2, 4});
  cast(device, {.x = wide, .y = narrow});
  cast(device, {.x = narrow, .y = View(back.data(), Dtype::f32, {2, 4})});
  CHECK(back[0] == 1);
  CHECK(back[1] == 1);
  CHECK(back[2] == 1 + 0x1p-6f);
  CHECK(std::isnan(back[3]));
  CHECK(back[4] == inf);
  CHECK(back[5] == -inf);
  CHECK(y[6].bits == 0x8000);
  CHECK(back[7] == 0x1p-133f);  // the smallest subnormal
}

TEST_CASE("fill: columns of a wider buffer, and nothing beside them") {
  CpuDevice device(1);
  std::vector<float> buffer(12, -1.0f);
  fill(device, {.y = View(buffer.data(), Dtype::f32, {3, 4}).slice(1, 1, 3), .value = 2.5f});
  for (int i = 0; i < 12; ++i) CHECK(buffer[i] == (i % 4 == 1 || i % 4 == 2 ? 2.5f : -1.0f));
}

TEST_CASE("transpose: a part of a matrix into a part of another") {
  CpuDevice device(1);
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, y(9, 0.0f);
  transpose(device, {.x = View(x.data(), Dtype::f32, {2, 3}).slice(1, 0, 2),
                     .y = View(y.data(), Dtype::f32, {3, 3}).slice(0, 0, 2).slice(1, 1, 3)});
  CHECK(y == std::vector<float>{0, 1, 4, 0, 2, 5, 0, 0, 0});
}

TEST_CASE("add_assign: bf16 gradients gather in f32 without loss") {
  CpuDevice device(1);
  bf16 x(0.00390625f);  // too small to move a bf16 256
  float y = 256;
  for (int i = 0; i < 3; ++i)
    add_assign(device, {.x = View(&x, Dtype::bf16, {1, 1}), .y = View(&y, Dtype::f32, {1, 1})});
  CHECK(y == 256 + 3 * 0.00390625f);
}

}  // namespace tang
