#include "lib/expr/parse.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "lib/base/error.h"

namespace tang {
namespace {

const std::array<std::string, 2> names = {"x", "y"};
Expr parse(std::string_view text) { return parse_expression(text, names); }

}  // namespace

TEST_CASE("expr: text means what it means in mathematics") {
  const Expr x = Expr::input(0), y = Expr::input(1);
  CHECK(parse("x * sigmoid(1.702 * x)").same(x * sigmoid(1.702 * x)));
  CHECK(parse("1 + 2 * 3 - 4 / 2").is(5));
  CHECK(parse("2 ^ 3 ^ 2").is(512));
  CHECK(parse("-x^2").same(-(x * x)));
  CHECK(parse("2^-1").is(0.5));
  CHECK(parse("x - y - 1").same(x - y - 1.0));
  CHECK(parse("x / y / 2").same(x / y / 2.0));
  CHECK(parse("select(x > 0, x, 0.01 * x)").same(select(x > 0.0, x, 0.01 * x)));
  CHECK(parse("(x <= y) + (x == y) + (x >= y)").same((x <= y) + equal(x, y) + (x >= y)));
  CHECK(parse(" max( x , min(y,1e-3) ) ").same(max(x, min(y, 1e-3))));
  CHECK(parse("log(1 + exp(x))").same(log(1.0 + exp(x))));
  CHECK(parse("gelu_tanh(x) + relu2(y)").same(gelu_tanh(x) + relu2(y)));
  CHECK(parse("cos(pi)").is(-1));
}

TEST_CASE("expr: a mistake in a text is told with its column") {
  const std::pair<const char*, const char*> cases[] = {
      {"x * sigmod(x)", "column 5: unknown function 'sigmod' (did you mean 'sigmoid'?)"},
      {"x * z", "column 5: unknown name 'z'; known: x, y, pi"},
      {"x * ", "column 5: expected a number, a name or '(' before the end"},
      {"", "column 1: expected a number, a name or '(' before the end"},
      {"(x + 1", "column 7: expected ')' for the '(' in column 1"},
      {"x + 1)", "column 6: expected an operator or the end, found ')'"},
      {"2x", "column 1: a number is followed by 'x'"},
      {"1.2.3", "column 1: a number is followed by '.'"},
      {"x ** 2", "column 3: a power is written ^, not **"},
      {"x & y", "column 3: expected an operator or the end, found '&'"},
      {"max(x)", "column 1: max takes 2 argument(s), found 1"},
      {"sin(x", "column 6: expected ',' or ')' after an argument of sin"},
      {"x + tanh", "column 5: 'tanh' is a function: write tanh(…)"},
      {"x + @", "column 5: expected a number, a name or '(', found '@'"},
  };
  for (const auto& [text, says] : cases) {
    const std::string given = text;
    CAPTURE(given);
    CHECK_THROWS_WITH_AS(parse(given), doctest::Contains(says), Error);
  }
  CHECK_THROWS_WITH_AS(parse(std::string(5000, '(')), doctest::Contains("more than 200"), Error);
  CHECK_THROWS_WITH_AS(parse(std::string(5000, '-') + "x"), doctest::Contains("more than 200"), Error);
}

}  // namespace tang
