#include "lib/ops/traced.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "lib/base/error.h"
#include "lib/ops/glu.h"

namespace tang {
namespace {

std::vector<float> ramp(size_t count, double speed) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(2 * std::sin(speed * static_cast<double>(i))));
  return values;
}

}  // namespace

TEST_CASE("traced: a closure runs over full operands, rows and numbers, with gaps between rows") {
  CpuDevice device(2);
  std::vector<float> a = ramp(3 * 300, 0.7), row = ramp(297, 0.3), one = {1.5f}, y(3 * 300, -9.0f);
  const View wide(a.data(), Dtype::f32, {3, 300}), target(y.data(), Dtype::f32, {3, 300});
  elementwise(device,
              {wide.slice(1, 1, 298), View(row.data(), Dtype::f32, {297}), View(one.data(), Dtype::f32, {1})},
              target.slice(1, 0, 297), [](Expr p, Expr q, Expr s) { return silu(p) * q + s; });
  for (size_t r = 0; r < 3; ++r) {
    for (size_t c = 0; c < 300; ++c) {
      const double x = a[r * 300 + c + 1];
      const double wanted = c < 297 ? x / (1 + std::exp(-x)) * row[c] + 1.5 : -9;
      CHECK(std::abs(y[r * 300 + c] - wanted) < 1e-6);
    }
  }
}

TEST_CASE("traced: in place, in bf16, with more axes than two") {
  CpuDevice device(1);
  std::vector<bf16> x;
  for (int i = 0; i < 24; ++i) x.emplace_back(static_cast<float>(i) - 12);
  const View view(x.data(), Dtype::bf16, {2, 3, 4});
  const Prepared twice =
      prepare_elementwise(device, {view, view}, view, [](Expr p, Expr q) { return p + q; });
  twice();
  twice();
  for (int i = 0; i < 24; ++i)
    CHECK(static_cast<float>(x[static_cast<size_t>(i)]) == 4 * (static_cast<float>(i) - 12));
}

TEST_CASE("traced: operands that do not fit are refused by number") {
  CpuDevice device(1);
  float memory[16] = {};
  const View y(memory, Dtype::f32, {2, 4});
  const auto run = [&](const View& x) {
    elementwise(device, {y, x}, y, [](Expr a, Expr b) { return a * b; });
  };
  CHECK_NOTHROW(run(View(memory, Dtype::f32, {4})));
  CHECK_THROWS_WITH_AS(run(View(memory, Dtype::f32, {3})),
                       doctest::Contains("input 1 is f32 [3]: expected the output's f32 [2, 4], a row of 4"),
                       Error);
  CHECK_THROWS_WITH_AS(run(View(memory, Dtype::f32, {2, 3})), doctest::Contains("input 1"), Error);
  CHECK_THROWS_WITH_AS(run(View(memory, Dtype::bf16, {2, 4})), doctest::Contains("input 1 must be f32"),
                       Error);
  CHECK_THROWS_WITH_AS(run(View()), doctest::Contains("input 1 is missing"), Error);
  CHECK_THROWS_WITH_AS(prepare_traced(device, {"f", {Expr::input(1)}, {y}, {y}}),
                       doctest::Contains("needs 2 inputs, but 1 are given"), Error);
  CHECK_NOTHROW(elementwise(device, {View(memory, Dtype::f32, {0, 4})}, View(memory, Dtype::f32, {0, 4}),
                            [](Expr a) { return a; }));
}

TEST_CASE("traced: an activation's ops follow from its text") {
  CpuDevice device(1);
  std::vector<float> dy = ramp(100, 0.9), gate = ramp(100, 0.4), up = ramp(100, 0.6), y(100), d_gate(100),
                     d_up(100);
  const auto view = [](std::vector<float>& v) { return View(v.data(), Dtype::f32, {4, 25}); };
  const GluOps ops = glu_ops("x * sigmoid(1.702 * x)");
  CHECK(glu_ops("x * sigmoid(1.702 * x)").forward == ops.forward);
  CHECK(glu_ops("gelu").forward == &gelu_glu_forward);
  (*ops.forward)(device, {view(gate), view(up), view(y)});
  (*ops.backward)(device, {view(dy), view(gate), view(up), view(d_gate), view(d_up)});
  for (size_t i = 0; i < 100; ++i) {
    const double g = gate[i], s = 1 / (1 + std::exp(-1.702 * g));
    CHECK(y[i] == doctest::Approx(g * s * up[i]).epsilon(1e-5));
    CHECK(d_gate[i] == doctest::Approx(dy[i] * up[i] * (s + 1.702 * g * s * (1 - s))).epsilon(1e-4));
    CHECK(d_up[i] == doctest::Approx(dy[i] * g * s).epsilon(1e-5));
  }
  CHECK_THROWS_WITH_AS(activation_of("2 + 3"), doctest::Contains("a function of x"), Error);
}

}  // namespace tang
