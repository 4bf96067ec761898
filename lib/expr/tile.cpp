#include "lib/expr/tile.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/device/simd.h"

namespace tang {

namespace {

inline float polynomial(float) { return 0.0f; }
template <class... Rest>
inline float polynomial(float x, float first, Rest... rest) {
  return first + x * polynomial(x, rest...);
}

/// Small arguments by a polynomial fitted to tanh(x)/x in x², others through exp(-2|x|).
inline float tanh_of(float x) {
  const float size = std::abs(x), z = size * size;
  const float s = (std::min(z, 0.4f) - 0.2f) * 5.0f;
  const float small = x * polynomial(s, 0.938267292f, -0.0571681956f, 0.00422269978f, -0.00031611375f,
                                     2.38995466e-05f, -1.79446039e-06f);
  const float e = fast_exp(-2.0f * size);
  const float large = std::copysign((1.0f - e) / (1.0f + e), x);
  return z < 0.4f ? small : large;
}

/// Small arguments by a polynomial fitted to erf(x)/x in x², others as 1 − exp(polynomial fitted to log
/// erfc).
inline float erf_of(float x) {
  const float size = std::abs(x), z = size * size;
  const float s = (std::min(z, 0.85f) - 0.425f) * (1.0f / 0.425f);
  const float small = x * polynomial(s, 0.987003658f, -0.124651729f, 0.0151081482f, -0.00148617567f,
                                     0.000120629937f, -8.33109329e-06f, 4.94548e-07f);
  const float t = (std::min(size, 4.0f) - 2.45f) * (1.0f / 1.55f);
  const float log_rest =
      polynomial(t, -7.54153961f, -8.15047947f, -2.26371201f, -0.0420881228f, 0.0131205607f, -0.00397304323f,
                 0.00113963528f, -0.0002998888f, 5.36468602e-05f);
  const float large = std::copysign(1.0f - fast_exp(log_rest), x);
  const float result = z < 0.85f ? small : large;
  return x != x ? x : result;
}

// Whole tiles, whatever lies past the count: no remainder loops, and the same bits wherever a tile starts.
template <class F>
inline void map(float* y, const float* a, const F& f) {
#pragma omp simd
  for (int64_t i = 0; i < TileProgram::tile; ++i) y[i] = f(a[i]);
}
template <class F>
inline void map(float* y, const float* a, const float* b, const F& f) {
#pragma omp simd
  for (int64_t i = 0; i < TileProgram::tile; ++i) y[i] = f(a[i], b[i]);
}

/// y may be a, b or c.
inline void compute_one(ExprOp op, float* y, const float* a) {
  switch (op) {
    case ExprOp::neg:
      return map(y, a, [](float x) { return -x; });
    case ExprOp::abs:
      return map(y, a, [](float x) { return std::abs(x); });
    case ExprOp::exp:
      return map(y, a, [](float x) { return fast_exp(x); });
    case ExprOp::sqrt:
      return map(y, a, [](float x) { return std::sqrt(x); });
    case ExprOp::rsqrt:
      return map(y, a, [](float x) { return 1.0f / std::sqrt(x); });
    case ExprOp::tanh:
      return map(y, a, [](float x) { return tanh_of(x); });
    case ExprOp::sigmoid:
      return map(y, a, [](float x) { return 1.0f / (1.0f + fast_exp(-x)); });
    case ExprOp::erf:
      return map(y, a, [](float x) { return erf_of(x); });
    default:
      return;
  }
}

inline void compute_two(ExprOp op, float* y, const float* a, const float* b) {
  switch (op) {
    case ExprOp::add:
      return map(y, a, b, [](float p, float q) { return p + q; });
    case ExprOp::sub:
      return map(y, a, b, [](float p, float q) { return p - q; });
    case ExprOp::mul:
      return map(y, a, b, [](float p, float q) { return p * q; });
    case ExprOp::div:
      return map(y, a, b, [](float p, float q) { return p / q; });
    case ExprOp::min:
      return map(y, a, b, [](float p, float q) { return ((p < q) | (p != p)) ? p : q; });
    case ExprOp::max:
      return map(y, a, b, [](float p, float q) { return ((p > q) | (p != p)) ? p : q; });
    case ExprOp::less:
      return map(y, a, b, [](float p, float q) { return p < q ? 1.0f : 0.0f; });
    case ExprOp::less_equal:
      return map(y, a, b, [](float p, float q) { return p <= q ? 1.0f : 0.0f; });
    case ExprOp::equal:
      return map(y, a, b, [](float p, float q) { return p == q ? 1.0f : 0.0f; });
    default:
      return;
  }
}

/// What the C library computes an element at a time. True when `op` is one of these.
bool compute_in_library(ExprOp op, int64_t n, float* y, const float* a, const float* b) {
  const auto each = [&](float (*f)(float)) {
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i]);
    return true;
  };
  if (op == ExprOp::log) return each([](float x) { return std::log(x); });
  if (op == ExprOp::sin) return each([](float x) { return std::sin(x); });
  if (op == ExprOp::cos) return each([](float x) { return std::cos(x); });
  if (op != ExprOp::pow) return false;
  for (int64_t i = 0; i < n; ++i) y[i] = std::pow(a[i], b[i]);
  return true;
}

void compute(ExprOp op, int64_t n, float* y, const float* a, const float* b, const float* c) {
  if (compute_in_library(op, n, y, a, b)) return;
  simd([&] {
    if (op == ExprOp::select) {
#pragma omp simd
      for (int64_t i = 0; i < TileProgram::tile; ++i) y[i] = a[i] != 0.0f ? b[i] : c[i];
    } else if (b == nullptr) {
      compute_one(op, y, a);
    } else {
      compute_two(op, y, a, b);
    }
  });
}

}  // namespace

float tile_tanh(float x) { return tanh_of(x); }
float tile_erf(float x) { return erf_of(x); }

TileProgram::TileProgram(std::span<const Expr> outputs, int64_t inputs) : inputs_(inputs) {
  const std::vector<Expr> nodes = in_order(outputs);
  std::map<const ExprNode*, size_t> last_use;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (int k = 0; k < operand_count(nodes[i].op()); ++k) last_use[nodes[i].node().operands[k]] = i;
  }
  for (const Expr& output : outputs) last_use[&output.node()] = nodes.size();
  std::map<const ExprNode*, Place> places;
  std::vector<int64_t> free_slots;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ExprNode& node = nodes[i].node();
    Place& place = places[&node];
    if (node.op == ExprOp::input) {
      place = {Place::Kind::input, node.input};
    } else if (node.op == ExprOp::constant) {
      place = {Place::Kind::constant, slots_++};
      constants_.emplace_back(place.index, static_cast<float>(node.value));
    } else {
      Step step{.op = node.op};
      for (int k = 0; k < operand_count(node.op); ++k) {
        step.operands[k] = places.at(node.operands[k]);
        const bool dies = last_use.at(node.operands[k]) == i && step.operands[k].kind == Place::Kind::slot;
        if (!dies) continue;
        free_slots.push_back(step.operands[k].index);
        last_use[node.operands[k]] = nodes.size();  // freed once, also when it is both operands
      }
      if (free_slots.empty()) free_slots.push_back(slots_++);
      step.target = free_slots.back();
      free_slots.pop_back();
      place = {Place::Kind::slot, step.target};
      steps_.push_back(step);
    }
  }
  for (const Expr& output : outputs) outputs_.push_back(places.at(&output.node()));
}

void TileProgram::run(int64_t count, const float* const* x, float* scratch, const float** y) const {
  for (const auto& [slot, value] : constants_) std::fill_n(scratch + slot * tile, tile, value);
  for (const Step& step : steps_) {
    const float* operands[3] = {};
    for (int k = 0; k < operand_count(step.op); ++k) operands[k] = at(step.operands[k], x, scratch);
    compute(step.op, count, scratch + step.target * tile, operands[0], operands[1], operands[2]);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) y[i] = at(outputs_[i], x, scratch);
}

}  // namespace tang
