#include "lib/expr/emit.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <map>

namespace tang {

namespace {

std::string literal(double value) {
  const auto rounded = static_cast<float>(value);
  if (!std::isfinite(rounded))
    return fmt::format("__uint_as_float({:#x}u)", std::bit_cast<uint32_t>(rounded));
  const std::string digits = fmt::format("{:.9g}", rounded);  // nine digits name every f32
  const bool whole = digits.find_first_of(".e") == std::string::npos;
  const std::string number = digits + (whole ? ".0f" : "f");
  return std::signbit(rounded) ? "(" + number + ")" : number;
}

std::string operation(ExprOp op, const std::string& a, const std::string& b, const std::string& c) {
  switch (op) {
    case ExprOp::add:
      return fmt::format("{} + {}", a, b);
    case ExprOp::sub:
      return fmt::format("{} - {}", a, b);
    case ExprOp::mul:
      return fmt::format("{} * {}", a, b);
    case ExprOp::div:
      return fmt::format("{} / {}", a, b);
    case ExprOp::neg:
      return fmt::format("-{}", a);
    case ExprOp::abs:
      return fmt::format("fabsf({})", a);
    case ExprOp::min:
      return fmt::format("{0} < {1} || {0} != {0} ? {0} : {1}", a, b);
    case ExprOp::max:
      return fmt::format("{0} > {1} || {0} != {0} ? {0} : {1}", a, b);
    case ExprOp::sigmoid:
      return fmt::format("sigmoid({})", a);
    case ExprOp::pow:
      return fmt::format("powf({}, {})", a, b);
    case ExprOp::less:
      return fmt::format("{} < {} ? 1.0f : 0.0f", a, b);
    case ExprOp::less_equal:
      return fmt::format("{} <= {} ? 1.0f : 0.0f", a, b);
    case ExprOp::equal:
      return fmt::format("{} == {} ? 1.0f : 0.0f", a, b);
    case ExprOp::select:
      return fmt::format("{} != 0.0f ? {} : {}", a, b, c);
    default:
      return fmt::format("{}f({})", name_of(op), a);  // expf, rsqrtf, erff …
  }
}

}  // namespace

std::string emit_cuda(std::span<const Expr> outputs, int64_t inputs, std::string_view name) {
  std::string text =
      fmt::format("__device__ __forceinline__ void {}(float (&y)[{}], const float (&x)[{}]) {{\n", name,
                  outputs.size(), inputs);
  std::map<const ExprNode*, std::string> names;
  int64_t count = 0;
  for (const Expr& e : in_order(outputs)) {
    const ExprNode& node = e.node();
    std::string& mine = names[&node];
    if (node.op == ExprOp::constant) {
      mine = literal(node.value);
    } else if (node.op == ExprOp::input) {
      mine = fmt::format("x[{}]", node.input);
    } else {
      std::string operands[3];
      for (int i = 0; i < operand_count(node.op); ++i) operands[i] = names.at(node.operands[i]);
      mine = fmt::format("t{}", count++);
      text += fmt::format("  const float {} = {};\n", mine,
                          operation(node.op, operands[0], operands[1], operands[2]));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    text += fmt::format("  y[{}] = {};\n", i, names.at(&outputs[i].node()));
  return text + "}\n";
}

}  // namespace tang
