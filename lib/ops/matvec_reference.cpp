#include <cmath>

#include "lib/ops/matvec.h"

namespace tang {

namespace {

/// One row of x on its way into the product, and the size of each entry's error relative to its own.
struct Row {
  std::vector<double> value, spread;
};

Row row_of(const Ref& r, int64_t b) {
  const int64_t depth = r["K"];
  Row row{{}, std::vector<double>(static_cast<size_t>(depth), 1.0)};
  double squares = 0;
  for (int64_t k = 0; k < depth; ++k) {
    row.value.push_back(r.in("x")[b * depth + k]);
    squares += row.value.back() * row.value.back();
  }
  const double rstd = 1 / std::sqrt(squares / static_cast<double>(depth) + r.scalar("eps"));
  for (int64_t k = 0; k < depth; ++k) {
    if (r.has("norm")) row.value[k] *= rstd * r.in("norm")[k];
    if (!r.has("gate")) continue;
    const double gate = r.in("gate")[b * depth + k];
    row.value[k] *= gate / (1 + std::exp(-gate));
    row.spread[k] = 1 + std::abs(gate);
  }
  return row;
}

}  // namespace

void matvec_reference(Ref& r) {
  const int64_t rows = r["B"], columns = r["N"], depth = r["K"];
  const auto& w = r.in("w");
  RefOutput& y = r.out("y");
  y.terms = static_cast<double>(depth + 1);
  // A normalised or gated x is stored before it is multiplied. K such roundings add up like a random walk, of
  // which four standard deviations (an even error's is 1 / sqrt(3)) must fit, for each of the two.
  y.extra_roundings = 2.4 * ((r.has("norm") ? 1 : 0) + (r.has("gate") ? 1 : 0));
  y.stored_roundings = r.has("residual") ? 1 : 0;
  for (int64_t b = 0; b < rows; ++b) {
    const Row row = row_of(r, b);
    for (int64_t n = 0; n < columns; ++n) {
      double sum = r.has("residual") ? r.in("residual")[b * columns + n] : 0;
      double squares = sum * sum;
      for (int64_t k = 0; k < depth; ++k) {
        const double term = row.value[k] * w[n * depth + k];
        sum += term;
        squares += term * term * row.spread[k] * row.spread[k];
      }
      y.value[b * columns + n] = sum;
      y.magnitude[b * columns + n] = std::sqrt(squares);
    }
  }
}

}  // namespace tang
