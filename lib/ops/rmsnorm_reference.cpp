#include <cmath>

#include "lib/ops/rmsnorm.h"

namespace tang {

void rmsnorm_forward_reference(Ref& r) {
  const int64_t rows = r["N"], dim = r["C"];
  const auto &x = r.in("x"), &w = r.in("w");
  const bool fused = r.has("residual");
  RefOutput &y = r.out("y"), &rstd = r.out("rstd");
  y.terms = rstd.terms = static_cast<double>(dim);
  // The sum is stored before it is normalised; one channel that dominates the row hands its rounding to rstd.
  rstd.extra_roundings = fused ? 1 : 0;
  y.extra_roundings = fused ? 2 : 0;
  std::vector<double> row(static_cast<size_t>(dim));
  for (int64_t n = 0; n < rows; ++n) {
    double squares = 0;
    for (int64_t c = 0; c < dim; ++c) {
      const double residual = fused ? r.in("residual")[n * dim + c] : 0;
      row[c] = x[n * dim + c] + residual;
      squares += row[c] * row[c];
      if (fused) {
        r.out("sum").value[n * dim + c] = row[c];
        r.out("sum").magnitude[n * dim + c] = std::hypot(x[n * dim + c], residual);
      }
    }
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(dim) + r.scalar("eps"));
    rstd.value[n] = rstd.magnitude[n] = inverse;
    for (int64_t c = 0; c < dim; ++c) {
      y.value[n * dim + c] = row[c] * inverse * w[c];
      // A sum that is stored rounds at its terms' size, which can be far above the sum's own.
      const double stored =
          fused ? std::hypot(x[n * dim + c], r.in("residual")[n * dim + c]) : std::abs(row[c]);
      y.magnitude[n * dim + c] = std::max(stored, std::abs(row[c])) * inverse * std::abs(w[c]);
    }
  }
}

void rmsnorm_backward_reference(Ref& r) {
  const int64_t rows = r["N"], dim = r["C"];
  const auto &dy = r.in("dy"), &x = r.in("x"), &w = r.in("w"), &rstd = r.in("rstd");
  RefOutput &dx = r.out("dx"), &dw = r.out("dw");
  dx.terms = static_cast<double>(dim);
  dw.terms = static_cast<double>(rows + 1);
  const bool fused = r.has("d_sum");
  std::vector<double> squares(static_cast<size_t>(dim), 0.0);
  for (int64_t c = 0; c < dim; ++c) {
    if (r.flag("accumulate")) dw.value[c] = r.in("dw")[c];
    squares[c] = dw.value[c] * dw.value[c];
  }
  for (int64_t n = 0; n < rows; ++n) {
    double mean = 0, mean_squares = 0;
    for (int64_t c = 0; c < dim; ++c) {
      const double term = w[c] * dy[n * dim + c] * x[n * dim + c] * rstd[n];
      mean += term / static_cast<double>(dim);
      mean_squares += term * term;
    }
    const double spread = std::sqrt(mean_squares) / static_cast<double>(dim);
    for (int64_t c = 0; c < dim; ++c) {
      const double unit = x[n * dim + c] * rstd[n], through = w[c] * dy[n * dim + c];
      const double residual = fused ? r.in("d_sum")[n * dim + c] : 0;
      dx.value[n * dim + c] = rstd[n] * (through - unit * mean) + residual;
      dx.magnitude[n * dim + c] = std::hypot(rstd[n] * std::hypot(through, unit * spread), residual);
      dw.value[c] += dy[n * dim + c] * unit;
      squares[c] += dy[n * dim + c] * unit * dy[n * dim + c] * unit;
    }
  }
  for (int64_t c = 0; c < dim; ++c) dw.magnitude[c] = std::sqrt(squares[c]);
}

}  // namespace tang
