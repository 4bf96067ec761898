// Building: sharing, folding, simplification.
#include "lib/expr/expr.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>

namespace tang {

namespace {

using Key = std::tuple<ExprOp, const ExprNode*, const ExprNode*, const ExprNode*, uint64_t, int64_t>;

uint64_t mixed(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0x9e3779b97f4a7c15u;
  return state ^ state >> 29;
}

uint64_t structure_of(const ExprNode& node) {
  uint64_t hash = mixed(static_cast<uint64_t>(node.op) + 1, std::bit_cast<uint64_t>(node.value));
  hash = mixed(hash, static_cast<uint64_t>(node.input));
  for (const ExprNode* operand : node.operands) hash = mixed(hash, operand == nullptr ? 0 : operand->order);
  return hash;
}

/// The one node like this.
const ExprNode& shared(ExprNode node) {
  static std::mutex mutex;
  static std::map<Key, std::unique_ptr<const ExprNode>> nodes;
  const std::lock_guard lock(mutex);
  auto& place = nodes[Key{node.op, node.operands[0], node.operands[1], node.operands[2],
                          std::bit_cast<uint64_t>(node.value), node.input}];
  if (!place) {
    node.order = structure_of(node);
    place = std::make_unique<const ExprNode>(node);
  }
  return *place;
}

bool is_constant(Expr e) { return e.op() == ExprOp::constant; }

/// What an operation is when it need not be one; `result` is set then.
bool simplify_sum(ExprOp op, Expr a, Expr b, Expr& result) {
  const bool plus = op == ExprOp::add;
  if (b.is(0)) return result = a, true;
  if (a.is(0)) return result = plus ? b : -b, true;
  if (b.op() == ExprOp::neg) return result = plus ? a - b.operand(0) : a + b.operand(0), true;
  if (plus && a.op() == ExprOp::neg) return result = b - a.operand(0), true;
  return false;
}

bool simplify_product(ExprOp op, Expr a, Expr b, Expr& result) {
  const bool times = op == ExprOp::mul;
  if (b.is(1)) return result = a, true;
  if (b.is(-1)) return result = -a, true;
  if (times && a.is(1)) return result = b, true;
  if (times && a.is(-1)) return result = -b, true;
  if (a.op() == ExprOp::neg && b.op() == ExprOp::neg)
    return result = Expr::make(op, a.operand(0), b.operand(0)), true;
  if (a.op() == ExprOp::neg)
    return result = is_constant(b) ? Expr::make(op, a.operand(0), -b) : -Expr::make(op, a.operand(0), b),
           true;
  if (b.op() == ExprOp::neg)
    return result = is_constant(a) ? Expr::make(op, -a, b.operand(0)) : -Expr::make(op, a, b.operand(0)),
           true;
  return false;
}

bool simplify_power(Expr a, Expr b, Expr& result) {
  if (b.is(0)) return result = 1.0, true;
  if (b.is(1)) return result = a, true;
  if (b.is(2)) return result = a * a, true;
  if (b.is(-1)) return result = 1.0 / a, true;
  return false;
}

bool simplify(ExprOp op, Expr a, Expr b, Expr c, Expr& result) {
  switch (op) {
    case ExprOp::add:
    case ExprOp::sub:
      return simplify_sum(op, a, b, result);
    case ExprOp::mul:
    case ExprOp::div:
      return simplify_product(op, a, b, result);
    case ExprOp::neg:
      if (a.op() == ExprOp::neg) return result = a.operand(0), true;
      if (a.op() == ExprOp::sub) return result = a.operand(1) - a.operand(0), true;
      return false;
    case ExprOp::abs:
      if (a.op() == ExprOp::neg) return result = abs(a.operand(0)), true;
      if (a.op() == ExprOp::abs) return result = a, true;
      return false;
    case ExprOp::min:
    case ExprOp::max:
      return a.same(b) && (result = a, true);
    case ExprOp::pow:
      return simplify_power(a, b, result);
    case ExprOp::select:
      if (is_constant(a)) return result = a.is(0) ? c : b, true;
      return b.same(c) && (result = b, true);
    default:
      return false;
  }
}

bool commutes(ExprOp op) { return op == ExprOp::add || op == ExprOp::mul || op == ExprOp::equal; }

}  // namespace

Expr::Expr(double value) : node_(&shared({.op = ExprOp::constant, .value = value})) {}

Expr Expr::input(int64_t number) { return Expr(shared({.op = ExprOp::input, .input = number})); }

Expr Expr::make(ExprOp op, Expr a, Expr b, Expr c) {
  const int count = operand_count(op);
  if (is_constant(a) && (count < 2 || is_constant(b)) && (count < 3 || is_constant(c)))
    return apply(op, a.node().value, b.node().value, c.node().value);
  Expr result = a;
  if (simplify(op, a, b, c, result)) return result;
  if (commutes(op) && b.node().order < a.node().order) std::swap(a, b);
  ExprNode node{.op = op};
  const Expr operands[] = {a, b, c};
  for (int i = 0; i < count; ++i) node.operands[i] = &operands[i].node();
  return Expr(shared(node));
}

double apply(ExprOp op, double a, double b, double c) {
  switch (op) {
    case ExprOp::add:
      return a + b;
    case ExprOp::sub:
      return a - b;
    case ExprOp::mul:
      return a * b;
    case ExprOp::div:
      return a / b;
    case ExprOp::neg:
      return -a;
    case ExprOp::abs:
      return std::abs(a);
    case ExprOp::min:
      return a < b || std::isnan(a) ? a : b;
    case ExprOp::max:
      return a > b || std::isnan(a) ? a : b;
    case ExprOp::exp:
      return std::exp(a);
    case ExprOp::log:
      return std::log(a);
    case ExprOp::sqrt:
      return std::sqrt(a);
    case ExprOp::rsqrt:
      return 1 / std::sqrt(a);
    case ExprOp::sin:
      return std::sin(a);
    case ExprOp::cos:
      return std::cos(a);
    case ExprOp::tanh:
      return std::tanh(a);
    case ExprOp::sigmoid:
      return 1 / (1 + std::exp(-a));
    case ExprOp::erf:
      return std::erf(a);
    case ExprOp::pow:
      return std::pow(a, b);
    case ExprOp::less:
      return a < b;
    case ExprOp::less_equal:
      return a <= b;
    case ExprOp::equal:
      return a == b;
    case ExprOp::select:
      return a != 0 ? b : c;
    case ExprOp::input:
    case ExprOp::constant:
      break;
  }
  return a;
}

std::vector<Expr> in_order(std::span<const Expr> roots) {
  std::vector<Expr> order;
  std::set<const ExprNode*> seen;
  std::vector<std::pair<const ExprNode*, int>> path;  // a node and how many of its operands are done
  for (const Expr& root : roots) {
    if (seen.insert(root.node_).second) path.emplace_back(root.node_, 0);
    while (!path.empty()) {
      auto& [node, done] = path.back();
      if (done == operand_count(node->op)) {
        order.push_back(Expr(*node));
        path.pop_back();
        continue;
      }
      const ExprNode* next = node->operands[done++];
      if (seen.insert(next).second) path.emplace_back(next, 0);
    }
  }
  return order;
}

int64_t node_count(Expr expression) {
  return static_cast<int64_t>(in_order(std::span(&expression, 1)).size());
}

bool depends_on(Expr expression, int64_t input) {
  const auto nodes = in_order(std::span(&expression, 1));
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](Expr e) { return e.op() == ExprOp::input && e.node().input == input; });
}

int64_t inputs_needed(std::span<const Expr> roots) {
  int64_t count = 0;
  for (const Expr& e : in_order(roots)) {
    if (e.op() == ExprOp::input) count = std::max(count, e.node().input + 1);
  }
  return count;
}

std::string_view name_of(ExprOp op) {
  static constexpr std::string_view names[] = {"input", "constant", "add",  "sub",        "mul",   "div",
                                               "neg",   "abs",      "min",  "max",        "exp",   "log",
                                               "sqrt",  "rsqrt",    "sin",  "cos",        "tanh",  "sigmoid",
                                               "erf",   "pow",      "less", "less_equal", "equal", "select"};
  return names[static_cast<size_t>(op)];
}

}  // namespace tang
