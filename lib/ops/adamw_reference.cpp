#include <algorithm>
#include <cmath>

#include "lib/ops/adamw.h"

namespace tang {

void global_norm_reference(Ref& r) {
  double sum = 0, squares = 0;  // of x², and of the terms themselves
  for (const double x : r.in("x")) {
    sum += x * x;
    squares += x * x * x * x;
  }
  RefOutput& norm = r.out("norm");
  norm.terms = static_cast<double>(r["P"]);
  norm.value[0] = std::sqrt(sum);
  // d sqrt(s) = ds / (2 sqrt(s)); the root itself rounds once.
  norm.magnitude[0] = sum == 0 ? 0 : std::sqrt(squares) / (2 * norm.value[0]);
}

void finite_guard_reference(Ref& r) {
  bool halted = r.in("halted")[0] != 0;
  for (const double value : r.in("values")) halted = halted || !std::isfinite(value);
  r.out("halted").value[0] = halted ? 1 : 0;
}

namespace {

/// The step's scalars, and one parameter's update with them.
struct Reference {
  double beta1, beta2, eps, weight_decay, rate, correction1, correction2, factor;

  explicit Reference(const Ref& r)
      : beta1(r.scalar("beta1")),
        beta2(r.scalar("beta2")),
        eps(r.scalar("eps")),
        weight_decay(r.scalar("weight_decay")),
        rate(r.in("control")[0]),
        correction1(r.in("control")[1]),
        correction2(r.in("control")[2]),
        factor(r.scalar("clip_norm") > 0 ? std::min(1.0, r.scalar("clip_norm") / r.in("norm")[0]) : 1.0) {}

  void update(Ref& r, size_t i) const {
    const double g = r.in("grad")[i] * factor, old = r.in("master")[i];
    RefOutput &master = r.out("master"), &m = r.out("m"), &v = r.out("v");
    m.value[i] = beta1 * r.in("m")[i] + (1 - beta1) * g;
    m.magnitude[i] = std::hypot(beta1 * r.in("m")[i], (1 - beta1) * g);
    v.value[i] = beta2 * r.in("v")[i] + (1 - beta2) * g * g;
    v.magnitude[i] = std::hypot(beta2 * r.in("v")[i], (1 - beta2) * g * g);
    const double scale = rate / (correction1 * (std::sqrt(v.value[i] / correction2) + eps));
    const double decay = static_cast<int64_t>(i) < r["decayed"] ? rate * weight_decay * old : 0;
    master.value[i] = old - decay - scale * m.value[i];
    master.magnitude[i] = std::hypot(old, decay, scale * m.magnitude[i]);
  }
};

}  // namespace

void adamw_reference(Ref& r) {
  const Reference step(r);
  const bool frozen = r.in("halted")[0] != 0 || !std::isfinite(r.in("norm")[0]);
  const auto count = static_cast<size_t>(r["P"]);
  // A chain of about ten roundings leads to each element.
  for (const char* name : {"master", "m", "v"}) r.out(name).terms = 4;
  for (size_t i = 0; i < count; ++i) {
    if (frozen) {
      for (const char* name : {"master", "m", "v"}) r.out(name).value[i] = r.in(name)[i];
    } else {
      step.update(r, i);
    }
  }
  if (r.has("weights")) r.out("weights") = r.out("master");
}

}  // namespace tang
