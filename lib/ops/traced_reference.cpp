#include <algorithm>
#include <cmath>

#include "lib/ops/traced.h"

namespace tang {

void elementwise_1_reference(Ref& r) {
  const auto& a = r.in("a");
  RefOutput& y = r.out("y");
  for (size_t i = 0; i < a.size(); ++i) {
    y.value[i] = a[i] / (1 + std::exp(-a[i]));
    y.magnitude[i] = std::abs(y.value[i]) * (1 + std::abs(a[i]));  // went through exp(-a)
  }
}

void elementwise_2_reference(Ref& r) {
  const auto &a = r.in("a"), &b = r.in("b");
  RefOutput& y = r.out("y");
  for (size_t i = 0; i < a.size(); ++i) {
    y.value[i] = std::tanh(a[i]) * b[i];
    y.magnitude[i] = std::abs(y.value[i]);
  }
}

void elementwise_3_reference(Ref& r) {
  const auto &a = r.in("a"), &b = r.in("b"), &c = r.in("c");
  RefOutput& y = r.out("y");
  y.terms = 2;
  for (size_t i = 0; i < a.size(); ++i) {
    y.value[i] = a[i] * b[i] + c[i];
    y.magnitude[i] = std::hypot(a[i] * b[i], c[i]);
  }
}

void elementwise_4_reference(Ref& r) {
  const auto &a = r.in("a"), &b = r.in("b"), &c = r.in("c"), &d = r.in("d");
  RefOutput& y = r.out("y");
  y.terms = 2;
  for (size_t i = 0; i < a.size(); ++i) {
    const double product = std::max(a[i], b[i]) * c[i];
    y.value[i] = product - std::abs(d[i]);
    y.magnitude[i] = std::hypot(product, d[i]);
  }
}

void elementwise_broadcast_reference(Ref& r) {
  const auto &a = r.in("a"), &b = r.in("b"), &c = r.in("c");
  RefOutput& y = r.out("y");
  y.terms = 2;
  for (size_t i = 0; i < a.size(); ++i) {
    const double shared = b[i % static_cast<size_t>(r["C"])];
    y.value[i] = c[0] * (a[i] * shared + a[i]);
    y.magnitude[i] = std::hypot(c[0] * a[i] * shared, c[0] * a[i]);
  }
}

}  // namespace tang
