#include <algorithm>
#include <cmath>

#include "lib/ops/softmax.h"

namespace tang {

void softmax_forward_reference(Ref& r) {
  const int64_t rows = r["N"], columns = r["C"];
  const auto& x = r.in("x");
  RefOutput& y = r.out("y");
  y.terms = static_cast<double>(columns);
  if (columns == 0) return;  // a row without a largest value has no outputs either
  for (int64_t n = 0; n < rows; ++n) {
    const int64_t visible = r.flag("causal") ? std::min(columns, n + 1) : columns;
    const double* row = x.data() + n * columns;
    double largest = row[0], reach = 0, sum = 0;
    for (int64_t c = 0; c < visible; ++c) {
      largest = std::max(largest, row[c]);
      reach = std::max(reach, std::abs(row[c]));
    }
    for (int64_t c = 0; c < visible; ++c) sum += std::exp(row[c] - largest);
    for (int64_t c = 0; c < visible; ++c) {
      y.value[n * columns + c] = std::exp(row[c] - largest) / sum;
      y.magnitude[n * columns + c] = y.value[n * columns + c] * (1 + reach);  // it went through exp
    }
  }
}

void softmax_backward_reference(Ref& r) {
  const int64_t rows = r["N"], columns = r["C"];
  const auto &dy = r.in("dy"), &y = r.in("y");
  RefOutput& dx = r.out("dx");
  dx.terms = static_cast<double>(columns);
  for (int64_t n = 0; n < rows; ++n) {
    double dot = 0, squares = 0;
    for (int64_t i = n * columns; i < (n + 1) * columns; ++i) {
      dot += y[i] * dy[i];
      squares += y[i] * dy[i] * y[i] * dy[i];
    }
    for (int64_t i = n * columns; i < (n + 1) * columns; ++i) {
      dx.value[i] = y[i] * (dy[i] - dot);
      dx.magnitude[i] = std::abs(y[i]) * std::hypot(dy[i], std::sqrt(squares));
    }
  }
}

}  // namespace tang
