#include <cmath>

#include "lib/ops/glu.h"

namespace tang {

namespace {

constexpr double pi = 3.14159265358979323846;

/// An activation at one point: its value and slope, each with the size of the terms that f32 adds up.
struct Point {
  double value, value_terms, slope, slope_terms;
};

Point gelu_at(double x) {
  const double e = std::erf(x / std::sqrt(2.0)), cdf = (1 + e) / 2;
  const double pdf = std::exp(-x * x / 2) / std::sqrt(2 * pi);
  return {x * cdf, std::abs(x) / 2 * std::hypot(1, e), cdf + x * pdf,
          std::hypot(0.5, 0.5 * e, x * pdf * (1 + x * x / 2))};  // pdf went through exp(-x²/2)
}

Point gelu_tanh_at(double x) {
  const double scale = std::sqrt(2 / pi);
  const double t = std::tanh(scale * (x + 0.044715 * x * x * x));
  const double inner = scale * (1 + 3 * 0.044715 * x * x);
  return {x * (1 + t) / 2, std::abs(x) / 2 * std::hypot(1, t), (1 + t) / 2 + x / 2 * (1 - t * t) * inner,
          std::hypot(std::hypot(0.5, 0.5 * t), x / 2 * inner * std::hypot(1, t * t))};
}

Point relu2_at(double x) {
  const double positive = x > 0 ? x : 0;
  return {positive * positive, positive * positive, 2 * positive, 2 * positive};
}

void forward(Ref& r, Point (*activation)(double)) {
  const auto &gate = r.in("gate"), &up = r.in("up");
  RefOutput& y = r.out("y");
  y.terms = 2;
  for (size_t i = 0; i < gate.size(); ++i) {
    const Point p = activation(gate[i]);
    y.value[i] = p.value * up[i];
    y.magnitude[i] = p.value_terms * std::abs(up[i]);
  }
}

void backward(Ref& r, Point (*activation)(double)) {
  const auto &dy = r.in("dy"), &gate = r.in("gate"), &up = r.in("up");
  RefOutput &d_gate = r.out("d_gate"), &d_up = r.out("d_up");
  d_gate.terms = 4, d_up.terms = 2;
  for (size_t i = 0; i < gate.size(); ++i) {
    const Point p = activation(gate[i]);
    d_gate.value[i] = dy[i] * up[i] * p.slope;
    d_gate.magnitude[i] = std::abs(dy[i] * up[i]) * p.slope_terms;
    d_up.value[i] = dy[i] * p.value;
    d_up.magnitude[i] = std::abs(dy[i]) * p.value_terms;
  }
}

}  // namespace

void gelu_glu_forward_reference(Ref& r) { forward(r, gelu_at); }
void gelu_glu_backward_reference(Ref& r) { backward(r, gelu_at); }
void gelu_tanh_glu_forward_reference(Ref& r) { forward(r, gelu_tanh_at); }
void gelu_tanh_glu_backward_reference(Ref& r) { backward(r, gelu_tanh_at); }
void relu2_glu_forward_reference(Ref& r) { forward(r, relu2_at); }
void relu2_glu_backward_reference(Ref& r) { backward(r, relu2_at); }

}  // namespace tang
