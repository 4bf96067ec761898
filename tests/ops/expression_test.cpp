#include "lib/ops/expression.h"

#include <doctest/doctest.h>

#include "lib/base/error.h"

namespace tang {
namespace {

Bindings values() {
  Bindings bound;
  bound.set("N", 7);
  bound.set("Hkv", 2);
  bound.set("H", 6);
  bound.set("is_causal", 1);
  return bound;
}

}  // namespace

TEST_CASE("expression: precedence, remainder, comparisons and names that begin alike") {
  const Bindings v = values();
  CHECK(evaluate("1+2*3", v) == 7);
  CHECK(evaluate("(1+2)*3", v) == 9);
  CHECK(evaluate("2*N - 1", v) == 13);
  CHECK(evaluate("8-3-2", v) == 3);
  CHECK(evaluate("N/2", v) == 3.5);
  CHECK(evaluate("N % 4 == 3", v) == 1);
  CHECK(evaluate("H % Hkv == 0", v) == 1);
  CHECK(evaluate("H<Hkv", v) == 0);
  CHECK(evaluate("H>=6", v) == 1);
  CHECK(evaluate("N != 7", v) == 0);
  CHECK(evaluate("10*(is_causal==1)+(N<=3)", v) == 10);
}

TEST_CASE("expression: mistakes are quoted with their column") {
  const Bindings v = values();
  CHECK_THROWS_WITH_AS(evaluate("N + M", v), "expression 'N + M': unknown name at column 5", Error);
  CHECK_THROWS_WITH_AS(evaluate("N +", v), doctest::Contains("expected a number or a name"), Error);
  CHECK_THROWS_WITH_AS(evaluate("(N", v), doctest::Contains("expected ')'"), Error);
  CHECK_THROWS_WITH_AS(evaluate("N N", v), doctest::Contains("unexpected text"), Error);
  CHECK_THROWS_WITH_AS(evaluate("N % 0", v), doctest::Contains("remainder by zero"), Error);
}

TEST_CASE("expression: bound looks at every name") {
  CHECK(bound("2*N + Hkv", values()));
  CHECK_FALSE(bound("2*N + F", values()));
  CHECK(bound("3", Bindings()));
}

}  // namespace tang
