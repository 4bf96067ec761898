// Elementwise expressions: a closure over symbolic inputs becomes a graph that is simplified while it is
// built, can be differentiated, evaluated in f64, run over f32 tiles on the CPU (tile.h) and printed as CUDA
// (emit.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tang {

/// What a node computes. NaN in gives NaN out, except where a comparison decides.
enum class ExprOp : uint8_t {
  input,
  constant,
  add,
  sub,
  mul,
  div,
  neg,
  abs,
  min,  // NaN when either is
  max,
  exp,
  log,
  sqrt,
  rsqrt,
  sin,
  cos,
  tanh,
  sigmoid,  // 1 / (1 + exp(-x))
  erf,
  pow,         // C's pow: NaN for a negative base under a fraction; 1 for an exponent of 0
  less,        // 1 or 0; 0 when either is NaN
  less_equal,  // the same
  equal,       // the same
  select,      // (condition, then, otherwise): otherwise when the condition is 0, then for all else, NaN too
};
constexpr int operand_count(ExprOp op) {
  if (op == ExprOp::input || op == ExprOp::constant) return 0;
  if (op == ExprOp::select) return 3;
  const bool two = (op >= ExprOp::add && op <= ExprOp::div) || op == ExprOp::min || op == ExprOp::max ||
                   (op >= ExprOp::pow && op <= ExprOp::equal);
  return two ? 2 : 1;
}

/// Equal nodes are one object and live as long as the process: comparing and copying expressions is cheap.
struct ExprNode {
  ExprOp op = ExprOp::constant;
  const ExprNode* operands[3] = {};
  double value = 0;    // of a constant
  int64_t input = 0;   // number of an input
  uint64_t order = 0;  // a hash of the structure: sums and products hold their operands in this order
};

/// An expression over numbered inputs. Operators build new ones; constants are folded, equal terms shared,
/// and x·1, x+0, −(−x) and their like simplified where no value changes but the sign of a zero. 0·x stays: it
/// is NaN for an infinite x.
class Expr {
 public:
  Expr(double value);  // NOLINT: a constant where an expression is expected
  static Expr input(int64_t number);
  static Expr make(ExprOp op, Expr a, Expr b = 0.0, Expr c = 0.0);

  const ExprNode& node() const { return *node_; }
  ExprOp op() const { return node_->op; }
  Expr operand(int i) const { return Expr(*node_->operands[i]); }
  bool is(double value) const { return op() == ExprOp::constant && node_->value == value; }
  /// The same graph, node for node.
  bool same(Expr other) const { return node_ == other.node_; }

  friend Expr operator+(Expr a, Expr b) { return make(ExprOp::add, a, b); }
  friend Expr operator-(Expr a, Expr b) { return make(ExprOp::sub, a, b); }
  friend Expr operator*(Expr a, Expr b) { return make(ExprOp::mul, a, b); }
  friend Expr operator/(Expr a, Expr b) { return make(ExprOp::div, a, b); }
  friend Expr operator-(Expr a) { return make(ExprOp::neg, a); }
  friend Expr operator<(Expr a, Expr b) { return make(ExprOp::less, a, b); }
  friend Expr operator<=(Expr a, Expr b) { return make(ExprOp::less_equal, a, b); }
  friend Expr operator>(Expr a, Expr b) { return make(ExprOp::less, b, a); }
  friend Expr operator>=(Expr a, Expr b) { return make(ExprOp::less_equal, b, a); }
  friend Expr equal(Expr a, Expr b) { return make(ExprOp::equal, a, b); }
  friend Expr select(Expr condition, Expr then, Expr otherwise) {
    return make(ExprOp::select, condition, then, otherwise);
  }
  friend Expr abs(Expr a) { return make(ExprOp::abs, a); }
  friend Expr min(Expr a, Expr b) { return make(ExprOp::min, a, b); }
  friend Expr max(Expr a, Expr b) { return make(ExprOp::max, a, b); }
  friend Expr exp(Expr a) { return make(ExprOp::exp, a); }
  friend Expr log(Expr a) { return make(ExprOp::log, a); }
  friend Expr sqrt(Expr a) { return make(ExprOp::sqrt, a); }
  friend Expr rsqrt(Expr a) { return make(ExprOp::rsqrt, a); }
  friend Expr sin(Expr a) { return make(ExprOp::sin, a); }
  friend Expr cos(Expr a) { return make(ExprOp::cos, a); }
  friend Expr tanh(Expr a) { return make(ExprOp::tanh, a); }
  friend Expr sigmoid(Expr a) { return make(ExprOp::sigmoid, a); }
  friend Expr erf(Expr a) { return make(ExprOp::erf, a); }
  friend Expr pow(Expr a, Expr b) { return make(ExprOp::pow, a, b); }

  friend Expr silu(Expr x) { return x * sigmoid(x); }
  friend Expr gelu(Expr x) { return 0.5 * x * (1.0 + erf(x * 0.70710678118654752)); }
  friend Expr gelu_tanh(Expr x) {
    return 0.5 * x * (1.0 + tanh(0.79788456080286536 * (x + 0.044715 * (x * x * x))));
  }
  friend Expr relu(Expr x) { return max(x, 0.0); }
  friend Expr relu2(Expr x) { return relu(x) * relu(x); }

 private:
  explicit Expr(const ExprNode& node) : node_(&node) {}
  friend std::vector<Expr> in_order(std::span<const Expr>);
  const ExprNode* node_;
};

/// The derivative with respect to one input. Conventions at the points where there is none: abs has slope 0
/// at 0; at a tie min and max follow their second operand (so relu has slope 0 at 0); comparisons are flat;
/// pow's slope in its exponent is 0 at a base of 0.
Expr gradient(Expr expression, int64_t input);

/// The expression with every input i replaced by by[i].
Expr substitute(Expr expression, std::span<const Expr> by);

/// The value in f64 at inputs[0 …]. An input error when an input is missing.
double evaluate(Expr expression, std::span<const double> inputs);

/// One operation in f64: what evaluate and constant folding share.
double apply(ExprOp op, double a, double b, double c);

/// Every node below the roots once, operands before users: an order that depends on the graphs alone.
std::vector<Expr> in_order(std::span<const Expr> roots);
int64_t node_count(Expr expression);  // inputs and constants included
bool depends_on(Expr expression, int64_t input);
int64_t inputs_needed(std::span<const Expr> roots);  // one more than the largest input's number

/// "mul", "less_equal".
std::string_view name_of(ExprOp op);

}  // namespace tang
