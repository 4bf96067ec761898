#include "lib/expr/tile.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace tang {
namespace {

constexpr int64_t tile = TileProgram::tile;

/// Distance of f32 values in steps between neighbours, at the size of `wanted`.
double steps(float got, double wanted) {
  const auto near = static_cast<float>(std::abs(wanted));
  const double step = std::nextafter(near, std::numeric_limits<float>::infinity()) - near;
  return std::abs(static_cast<double>(got) - wanted) / step;
}

}  // namespace

TEST_CASE("expr: the tiles' own tanh and erf are within a few steps of the exact value") {
  for (float x = 1e-30f; x < 20; x = x < 1e-3f ? x * 7 : x * 1.003f) {
    for (float value : {x, -x}) {
      CAPTURE(value);
      CHECK(steps(tile_tanh(value), std::tanh(static_cast<double>(value))) <= 3);
      CHECK(steps(tile_erf(value), std::erf(static_cast<double>(value))) <= 3);
    }
  }
  for (float (*f)(float) : {tile_tanh, tile_erf}) {
    CHECK(f(std::numeric_limits<float>::infinity()) == 1);
    CHECK(f(-1e30f) == -1);
    CHECK(std::isnan(f(std::nanf(""))));
    CHECK(f(0) == 0);
  }
}

TEST_CASE("expr: a tile computes what evaluate does, for every operation") {
  std::array<std::vector<float>, 3> memory;
  for (size_t k = 0; k < 3; ++k) {
    for (int64_t i = 0; i < tile; ++i)
      memory[k].push_back(static_cast<float>(3 * std::sin(0.37 * static_cast<double>(i * (k + 1)) + 0.1)));
  }
  const float* inputs[] = {memory[0].data(), memory[1].data(), memory[2].data()};
  for (int op = static_cast<int>(ExprOp::add); op <= static_cast<int>(ExprOp::select); ++op) {
    const auto which = static_cast<ExprOp>(op);
    const Expr e = Expr::make(which, Expr::input(0), Expr::input(1), Expr::input(2));
    const TileProgram program(std::span(&e, 1), 3);
    std::vector<float> scratch(static_cast<size_t>(program.scratch()));
    const float* y = nullptr;
    program.run(tile, inputs, scratch.data(), &y);
    for (size_t i = 0; i < tile; ++i) {
      const double wanted = evaluate(e, std::array<double, 3>{memory[0][i], memory[1][i], memory[2][i]});
      CAPTURE(name_of(which));
      CAPTURE(memory[0][i]);
      if (std::isnan(wanted)) {
        CHECK(std::isnan(y[i]));
      } else {
        CHECK(steps(y[i], wanted) <= 4);
      }
    }
  }
}

TEST_CASE("expr: a program keeps few tiles, and outputs survive to the end") {
  const Expr x = Expr::input(0);
  Expr chain = x;
  for (int i = 0; i < 20; ++i) chain = sin(chain) + x;
  CHECK(TileProgram(std::span(&chain, 1), 1).scratch() == tile);
  const Expr outputs[] = {x * x, exp(x * x), x, 3.0};
  const TileProgram program(outputs, 1);
  std::vector<float> values(tile, 0.5f), scratch(static_cast<size_t>(program.scratch()));
  const float* inputs[] = {values.data()};
  const float* y[4] = {};
  program.run(tile, inputs, scratch.data(), y);
  CHECK(y[0][7] == 0.25f);
  CHECK(y[1][7] == doctest::Approx(std::exp(0.25)));
  CHECK(y[2] == values.data());
  CHECK(y[3][tile - 1] == 3);
}

}  // namespace tang
