#include <cmath>

#include "lib/ops/swiglu.h"

namespace tang {

// Each term went through exp(-gate): its relative error grows with |gate|.

void swiglu_forward_reference(Ref& r) {
  const auto &gate = r.in("gate"), &up = r.in("up");
  RefOutput& y = r.out("y");
  for (size_t i = 0; i < gate.size(); ++i) {
    y.value[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    y.magnitude[i] = std::abs(y.value[i]) * (1 + std::abs(gate[i]));
  }
}

void swiglu_backward_reference(Ref& r) {
  const auto &dy = r.in("dy"), &gate = r.in("gate"), &up = r.in("up");
  RefOutput &d_gate = r.out("d_gate"), &d_up = r.out("d_up");
  d_gate.terms = 2;
  for (size_t i = 0; i < gate.size(); ++i) {
    const double s = 1 / (1 + std::exp(-gate[i])), spread = 1 + std::abs(gate[i]);
    const double through = dy[i] * up[i];
    d_gate.value[i] = through * (s + gate[i] * s * (1 - s));
    d_gate.magnitude[i] = std::abs(through) * std::hypot(s, gate[i] * s * (1 - s)) * spread;
    d_up.value[i] = dy[i] * gate[i] * s;
    d_up.magnitude[i] = std::abs(d_up.value[i]) * spread;
    if (!r.has("y")) continue;
    r.out("y").value[i] = gate[i] * s * up[i];
    r.out("y").magnitude[i] = std::abs(gate[i] * s * up[i]) * spread;
  }
}

}  // namespace tang
