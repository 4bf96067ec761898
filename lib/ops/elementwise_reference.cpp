#include <cmath>

#include "lib/ops/elementwise.h"

namespace tang {

void cast_reference(Ref& r) {
  const auto& x = r.in("x");
  RefOutput& y = r.out("y");
  for (size_t i = 0; i < x.size(); ++i) {
    y.value[i] = x[i];
    y.magnitude[i] = std::abs(x[i]);
  }
}

namespace {

void add_into(RefOutput& y, const std::vector<double>& a, const std::vector<double>& b) {
  y.terms = 2;
  for (size_t i = 0; i < a.size(); ++i) {
    y.value[i] = a[i] + b[i];
    y.magnitude[i] = std::hypot(a[i], b[i]);
  }
}

}  // namespace

void add_reference(Ref& r) { add_into(r.out("y"), r.in("a"), r.in("b")); }

void add_assign_reference(Ref& r) { add_into(r.out("y"), r.in("x"), r.in("y")); }

void fill_reference(Ref& r) {
  RefOutput& y = r.out("y");
  for (double& value : y.value) value = r.scalar("value");
  for (double& magnitude : y.magnitude) magnitude = std::abs(r.scalar("value"));
}

void transpose_reference(Ref& r) {
  const int64_t rows = r["R"], columns = r["C"];
  const auto& x = r.in("x");
  RefOutput& y = r.out("y");
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      y.value[column * rows + row] = x[row * columns + column];
      y.magnitude[column * rows + row] = std::abs(x[row * columns + column]);
    }
  }
}

}  // namespace tang
