// Expressions from text: "x * sigmoid(1.702 * x)".
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/expr/expr.h"

namespace tang {

/// names[i] stands for input i. Numbers, pi, + - * /, ^ (binds tightest, to the right), comparisons < <= > >=
/// == (1 or 0), parentheses, every operation of expr.h and its helpers by name: exp(x), min(a, b),
/// select(condition, then, otherwise). An input error quotes the text and gives the column of what is wrong.
Expr parse_expression(std::string_view text, std::span<const std::string> names);

}  // namespace tang
