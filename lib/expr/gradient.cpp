// Reverse-mode differentiation, symbolically: each node hands the gradient that reaches it to its operands.
#include <map>

#include "lib/base/error.h"
#include "lib/expr/expr.h"

namespace tang {

namespace {

/// Gradients by node. A zero is never stored, so that no product with it is ever built (0·∞ is NaN).
class Adjoints {
 public:
  void add(Expr to, Expr gradient) {
    if (gradient.is(0)) return;
    const auto [place, fresh] = of_.try_emplace(&to.node(), gradient);
    if (!fresh) place->second = place->second + gradient;
  }
  Expr of(Expr e) const {
    const auto found = of_.find(&e.node());
    return found == of_.end() ? Expr(0.0) : found->second;
  }

 private:
  std::map<const ExprNode*, Expr> of_;
};

constexpr double two_over_root_pi = 1.1283791670955126;

/// d n / d a times g, for the operations of one operand.
Expr through(Expr n, Expr g) {
  const Expr a = n.operand(0);
  switch (n.op()) {
    case ExprOp::neg:
      return -g;
    case ExprOp::abs:
      return g * ((0.0 < a) - (a < 0.0));
    case ExprOp::exp:
      return g * n;
    case ExprOp::log:
      return g / a;
    case ExprOp::sqrt:
      return g * 0.5 / n;
    case ExprOp::rsqrt:
      return g * (-0.5 * n / a);
    case ExprOp::sin:
      return g * cos(a);
    case ExprOp::cos:
      return -(g * sin(a));
    case ExprOp::tanh:
      return g * (1.0 - n * n);
    case ExprOp::sigmoid:
      return g * (n * (1.0 - n));
    case ExprOp::erf:
      return g * (two_over_root_pi * exp(-(a * a)));
    default:
      return 0.0;
  }
}

void hand_down_two(Expr n, Expr g, Adjoints& adjoints) {
  const Expr a = n.operand(0), b = n.operand(1);
  const auto give = [&](Expr to_a, Expr to_b) { adjoints.add(a, to_a), adjoints.add(b, to_b); };
  switch (n.op()) {
    case ExprOp::add:
      return give(g, g);
    case ExprOp::sub:
      return give(g, -g);
    case ExprOp::mul:
      return give(g * b, g * a);
    case ExprOp::div:
      return give(g / b, -(g * n / b));
    case ExprOp::min:
      return give(select(a < b, g, 0.0), select(a < b, 0.0, g));
    case ExprOp::max:
      return give(select(a > b, g, 0.0), select(a > b, 0.0, g));
    case ExprOp::pow:
      return give(g * (b * pow(a, b - 1.0)), select(equal(a, 0.0), 0.0, g * (n * log(a))));
    default:  // comparisons are flat
      return;
  }
}

}  // namespace

Expr gradient(Expr expression, int64_t input) {
  Adjoints adjoints;
  adjoints.add(expression, 1.0);
  const std::vector<Expr> nodes = in_order(std::span(&expression, 1));
  for (size_t i = nodes.size(); i-- > 0;) {
    const Expr n = nodes[i], g = adjoints.of(n);
    if (g.is(0)) continue;
    if (operand_count(n.op()) == 1) adjoints.add(n.operand(0), through(n, g));
    if (operand_count(n.op()) == 2) hand_down_two(n, g, adjoints);
    if (n.op() == ExprOp::select) {
      adjoints.add(n.operand(1), select(n.operand(0), g, 0.0));
      adjoints.add(n.operand(2), select(n.operand(0), 0.0, g));
    }
  }
  return adjoints.of(Expr::input(input));
}

Expr substitute(Expr expression, std::span<const Expr> by) {
  std::map<const ExprNode*, Expr> made;
  for (const Expr& e : in_order(std::span(&expression, 1))) {
    const ExprNode& node = e.node();
    Expr operands[3] = {0.0, 0.0, 0.0};
    for (int i = 0; i < operand_count(node.op); ++i) operands[i] = made.at(node.operands[i]);
    if (node.op == ExprOp::input && node.input >= static_cast<int64_t>(by.size()))
      fail_input("the expression needs input {}, but {} are given", node.input, by.size());
    made.emplace(&node, node.op == ExprOp::constant ? e
                        : node.op == ExprOp::input
                            ? by[static_cast<size_t>(node.input)]
                            : Expr::make(node.op, operands[0], operands[1], operands[2]));
  }
  return made.at(&expression.node());
}

double evaluate(Expr expression, std::span<const double> inputs) {
  std::map<const ExprNode*, double> values;
  for (const Expr& e : in_order(std::span(&expression, 1))) {
    const ExprNode& node = e.node();
    double operands[3] = {};
    for (int i = 0; i < operand_count(node.op); ++i) operands[i] = values.at(node.operands[i]);
    if (node.op == ExprOp::input && node.input >= static_cast<int64_t>(inputs.size()))
      fail_input("the expression needs input {}, but {} are given", node.input, inputs.size());
    values[&node] = node.op == ExprOp::constant ? node.value
                    : node.op == ExprOp::input  ? inputs[static_cast<size_t>(node.input)]
                                                : apply(node.op, operands[0], operands[1], operands[2]);
  }
  return values.at(&expression.node());
}

}  // namespace tang
