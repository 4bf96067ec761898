#include "lib/expr/expr.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>

#include "lib/base/error.h"
#include "lib/expr/emit.h"

namespace tang {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

Expr in(int64_t i) { return Expr::input(i); }
double at(Expr e, std::initializer_list<double> inputs) { return evaluate(e, std::vector<double>(inputs)); }

/// Both slopes of e at (a, b) against central differences.
void check_slopes(Expr e, double a, double b) {
  constexpr double h = 1e-4;
  for (int64_t i : {0, 1}) {
    const auto moved = [&](double step) { return at(e, {a + (i == 0 ? step : 0), b + (i == 1 ? step : 0)}); };
    const double measured = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
    const double slope = at(gradient(e, i), {a, b});
    CAPTURE(i);
    CHECK(std::abs(slope - measured) < 1e-9 * (1 + std::abs(slope)));
  }
}

}  // namespace

TEST_CASE("expr: every operation's gradient is its slope") {
  for (int op = static_cast<int>(ExprOp::add); op <= static_cast<int>(ExprOp::select); ++op) {
    const auto which = static_cast<ExprOp>(op);
    CAPTURE(name_of(which));
    const bool positive =
        which == ExprOp::log || which == ExprOp::sqrt || which == ExprOp::rsqrt || which == ExprOp::pow;
    const Expr e = Expr::make(which, in(0), in(1), in(0) * in(1));
    for (const auto& [a, b] : {std::pair{0.7, 1.3}, {1.9, 0.4}, {-0.8, 0.6}, {-2.5, -1.1}, {3.0, -0.25}})
      check_slopes(e, positive ? std::abs(a) : a, b);
  }
}

TEST_CASE("expr: gradients of what is built from operations") {
  const Expr x = in(0), y = in(1);
  for (const Expr& e :
       {silu(x) * y, gelu(x) + y, gelu_tanh(x) / (2.0 + y * y), relu2(x) * relu(y), pow(x, 3.0) - y,
        select(x < y, x * x, sin(y)), max(x, y) * min(x, y) + abs(x), exp(-x * x) * cos(y)}) {
    for (const auto& [a, b] : {std::pair{0.7, 1.3}, {1.9, 0.4}, {-0.8, 0.6}, {-2.5, -1.1}})
      check_slopes(e, a, b);
  }
  const Expr second = gradient(gradient(sin(x) * x, 0), 0);  // 2 cos x − x sin x
  CHECK(at(second, {0.3}) == doctest::Approx(2 * std::cos(0.3) - 0.3 * std::sin(0.3)));
  CHECK(gradient(x * x, 1).is(0));
}

TEST_CASE("expr: values and slopes where there is a kink, a pole or no number") {
  const Expr x = in(0), y = in(1);
  CHECK(at(gradient(relu(x), 0), {0}) == 0);
  CHECK(at(gradient(abs(x), 0), {0}) == 0);
  CHECK(at(gradient(max(x, y), 0), {2, 2}) == 0);
  CHECK(at(gradient(max(x, y), 1), {2, 2}) == 1);
  CHECK(at(gradient(select(x > 0.0, log(x), 0.0), 0), {-1}) == 0);
  for (const Expr& e : {min(x, y), max(x, y)}) {
    CHECK(std::isnan(at(e, {nan, 1})));
    CHECK(std::isnan(at(e, {1, nan})));
  }
  CHECK(std::isnan(at(relu(x), {nan})));
  CHECK(at(x < y, {nan, 1}) == 0);
  CHECK(at(x <= y, {1, nan}) == 0);
  CHECK(at(equal(x, x), {nan}) == 0);
  CHECK(at(select(x, 1.0, 2.0), {nan}) == 1);
  CHECK(at(select(x, 1.0, 2.0), {-0.0}) == 2);
  CHECK(at(sigmoid(x), {1e4}) == 1);
  CHECK(at(sigmoid(x), {-1e4}) == 0);
  CHECK(at(silu(x), {-1e4}) == 0);
  CHECK(at(gelu(x), {-1e4}) == 0);
  CHECK(at(gelu_tanh(x), {1e4}) == 1e4);
  CHECK(at(tanh(x), {-inf}) == -1);
  CHECK(at(rsqrt(x), {0}) == inf);
  CHECK(std::isnan(at(log(x), {-1})));
  CHECK(at(log(x), {0}) == -inf);
  CHECK(at(pow(x, y), {0, 0}) == 1);
  CHECK(std::isnan(at(pow(x, y), {-1, 0.5})));
  CHECK(at(pow(x, y), {-2, 3}) == -8);
  CHECK(std::isnan(at(x * 0.0, {inf})));  // 0·x is not 0
  CHECK_THROWS_WITH_AS(evaluate(y, std::array{1.0}), doctest::Contains("needs input 1, but 1 are given"),
                       Error);
}

TEST_CASE("expr: constants fold and units vanish") {
  const Expr x = in(0), y = in(1);
  CHECK((Expr(2) * 3.0 + 1.0).is(7));
  CHECK(exp(Expr(0)).is(1));
  for (const Expr& e : {x * 1.0, 1.0 * x, x + 0.0, 0.0 + x, x - 0.0, x / 1.0, -(-x), pow(x, 1.0), min(x, x),
                        select(1.0, x, y), select(y, x, x), -x * -1.0, Expr(1) * (x + Expr(2) * 0.0)})
    CHECK(e.same(x));
  CHECK(pow(x, 2.0).same(x * x));
  CHECK(pow(x, -1.0).same(1.0 / x));
  CHECK((x - (-y)).same(x + y));
  CHECK((x + (-y)).same(x - y));
  CHECK(((-x) * (-y)).same(x * y));
  CHECK((-(x - y)).same(y - x));
  CHECK(pow(x, 0.0).is(1));
}

TEST_CASE("expr: equal terms are one node, whichever way they are written") {
  const Expr x = in(0), y = in(1);
  CHECK((x * y + sin(x)).same(sin(x) + y * x));
  CHECK(node_count(x * y) == 3);
  CHECK(node_count((x + y) * (y + x)) == 4);
  CHECK(node_count(silu(x)) == 3);
  CHECK(node_count(gradient(silu(x), 0)) <= 8);  // the sigmoid is computed once
  CHECK_FALSE((x - y).same(y - x));
  CHECK_FALSE(max(x, y).same(max(y, x)));  // a tie follows the second
  CHECK(depends_on(x * y, 1));
  CHECK_FALSE(depends_on(gradient(x * y, 0), 0));
  CHECK(substitute(silu(x), std::array{y}).same(silu(y)));
}

TEST_CASE("expr: CUDA text names each shared term once") {
  const Expr outputs[] = {silu(in(0)) * in(1), silu(in(0))};
  CHECK(emit_cuda(outputs, 2, "f") ==
        "__device__ __forceinline__ void f(float (&y)[2], const float (&x)[2]) {\n"
        "  const float t0 = sigmoid(x[0]);\n"
        "  const float t1 = t0 * x[0];\n"
        "  const float t2 = x[1] * t1;\n"
        "  y[0] = t2;\n"
        "  y[1] = t1;\n"
        "}\n");
  const Expr numbers[] = {in(0) * 0.1 + -3.0, min(in(0), inf)};
  const std::string text = emit_cuda(numbers, 1, "f");
  CHECK(text.find("0.100000001f") != std::string::npos);
  CHECK(text.find("(-3.0f)") != std::string::npos);
  CHECK(text.find("__uint_as_float(0x7f800000u)") != std::string::npos);
}

}  // namespace tang
