#include "lib/ops/adamw.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tang {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// One arena in host memory with a guard word after each array.
struct Arena {
  CpuDevice device{2};
  int64_t count;
  std::vector<float> grad, master, m, v, control = {0, 1, 1};
  std::vector<bf16> weights;
  float norm = 1;
  uint32_t halted = 0;
  AdamW args;

  explicit Arena(int64_t n)
      : count(n), grad(n + 1, 0.0f), master(n + 1, 0.0f), m(n + 1, 0.0f), v(n + 1, 0.0f), weights(n + 1) {
    args.grad = View(grad.data(), Dtype::f32, {n});
    args.master = View(master.data(), Dtype::f32, {n});
    args.m = View(m.data(), Dtype::f32, {n});
    args.v = View(v.data(), Dtype::f32, {n});
    args.weights = View(weights.data(), Dtype::bf16, {n});
    args.norm = View(&norm, Dtype::f32, {1});
    args.control = View(control.data(), Dtype::f32, {3});
    args.halted = View(&halted, Dtype::u32, {1});
    args.clip_norm = 0;
    args.weight_decay = 0;
  }
  /// Step number t (from 1) at `rate`.
  void step(float rate, int t = 1) {
    control = {rate, 1 - std::pow(args.beta1, static_cast<float>(t)),
               1 - std::pow(args.beta2, static_cast<float>(t))};
    args.control = View(control.data(), Dtype::f32, {3});
    adamw(device, args);
  }
};

TEST_CASE("adamw: eps is added after the bias correction") {
  for (const float beta2 : {0.95f, 0.999f}) {
    Arena a(1);
    a.args.beta2 = beta2;
    a.grad[0] = 1e-8f;
    a.step(1.0f);
    CHECK(a.master[0] == doctest::Approx(-0.5).epsilon(1e-5));
  }
}

TEST_CASE("adamw: the f32 master moves where its bf16 copy could not") {
  Arena a(1);
  a.master[0] = 1;
  a.args.beta1 = a.args.beta2 = 0;  // a constant update of one learning rate
  a.grad[0] = 1;
  for (int t = 1; t <= 100; ++t) a.step(6e-4f, t);
  CHECK(a.master[0] == doctest::Approx(0.94).epsilon(1e-5));
  CHECK(static_cast<float>(a.weights[0]) == 0.94140625f);
}

TEST_CASE("adamw: decay is decoupled and stops where the arena's matrices end") {
  Arena a(5);
  std::fill(a.master.begin(), a.master.end(), 2.0f);
  a.args.weight_decay = 0.1f;
  a.args.decayed = 3;
  a.step(0.5f);
  CHECK(a.master[2] == doctest::Approx(1.9));
  CHECK(a.master[3] == 2);
}

TEST_CASE("adamw: a norm above the limit scales every gradient, a smaller one none") {
  for (const float norm : {0.25f, 4.0f}) {
    Arena a(3);
    a.args.clip_norm = 1;
    a.args.beta1 = 0;
    a.norm = norm;
    a.grad = {2, 2, 2, 0};
    a.step(0.0f);
    CHECK(a.m[1] == doctest::Approx(norm > 1 ? 0.5 : 2));
  }
}

TEST_CASE("adamw: every length is updated to its end and no further") {
  for (const int64_t count : {1, 31, 33, 127, 257, 4097}) {
    Arena a(count);
    for (int64_t i = 0; i <= count; ++i) a.grad[i] = static_cast<float>(i % 7) - 3.5f;
    a.master[count] = a.m[count] = a.v[count] = 77;
    a.weights[count] = bf16(77.0f);
    a.step(0.125f);
    bool all = true;
    for (int64_t i = 0; i < count; ++i) {  // the first step is one learning rate against the gradient
      const float wanted = a.grad[i] > 0 ? -0.125f : 0.125f;
      all = all && std::abs(a.master[i] - wanted) < 1e-6f && static_cast<float>(a.weights[i]) == wanted;
    }
    CHECK(all);
    CHECK(a.master[count] + a.m[count] + a.v[count] + static_cast<float>(a.weights[count]) == 4 * 77);
  }
}

TEST_CASE("adamw: a halted run or a norm that is not finite leaves every bit") {
  struct Stop {
    uint32_t halted;
    float norm;
  };
  for (const auto& stop : {Stop{1, 1.0f}, Stop{0, nan}, Stop{0, inf}}) {
    Arena a(9);
    for (int64_t i = 0; i < 10; ++i) a.grad[i] = a.master[i] = a.m[i] = a.v[i] = static_cast<float>(i);
    a.weights[4] = bf16(5.0f);
    a.grad[3] = nan;
    const auto master = a.master, m = a.m, v = a.v;
    a.halted = stop.halted;
    a.norm = stop.norm;
    a.args.clip_norm = 1;
    a.step(0.1f);
    CHECK(a.master == master);
    CHECK(a.m == m);
    CHECK(a.v == v);
    CHECK(static_cast<float>(a.weights[4]) == 5);
  }
}

TEST_CASE("finite_guard: raises the flag and never lowers it") {
  CpuDevice device(1);
  std::vector<float> values = {1, 2, 3};
  uint32_t halted = 0;
  const FiniteGuard args{.values = View(values.data(), Dtype::f32, {3}),
                         .halted = View(&halted, Dtype::u32, {1})};
  finite_guard(device, args);
  CHECK(halted == 0);
  for (const float bad : {nan, inf, -inf}) {
    halted = 0;
    values[2] = bad;
    finite_guard(device, args);
    CHECK(halted == 1);
  }
  values[2] = 0;
  finite_guard(device, args);
  CHECK(halted == 1);
}

TEST_CASE("global_norm: the same bits on any number of threads, and one NaN reaches it") {
  std::vector<float> x(20000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.1f * static_cast<float>(i));
  float norms[2];
  for (int threads = 1; threads <= 2; ++threads) {
    CpuDevice device(threads);
    global_norm(device, {.x = View(x.data(), Dtype::f32, {20000}),
                         .norm = View(&norms[threads - 1], Dtype::f32, {1})});
  }
  CHECK(norms[0] == norms[1]);
  CHECK(norms[0] == doctest::Approx(100.0).epsilon(0.01));
  x[12345] = nan;
  CpuDevice device(2);
  global_norm(device, {.x = View(x.data(), Dtype::f32, {20000}), .norm = View(norms, Dtype::f32, {1})});
  CHECK(std::isnan(norms[0]));
}

}  // namespace
}  // namespace tang
