#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/ops/cross_entropy.h"

namespace tang {

namespace {

/// Probabilities of one row of logits and what their rounding errors are measured against.
struct Row {
  std::vector<double> p;
  double log_sum = 0;       // of exp(logits)
  double largest = 0;       // |logit|
  double log_sum_size = 0;  // error scale of log_sum's own sum: each term by 1 + largest, over the sum

  Row(const double* logits, int64_t vocab) : p(static_cast<size_t>(vocab)) {
    const double top = *std::max_element(logits, logits + vocab);
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < vocab; ++c) {
      p[c] = std::exp(logits[c] - top);
      sum += p[c];
      squares += p[c] * p[c];
      largest = std::max(largest, std::abs(logits[c]));
    }
    for (double& value : p) value /= sum;
    log_sum = top + std::log(sum);
    log_sum_size = (1 + largest) * std::sqrt(squares) / sum;
  }
};

}  // namespace

void cross_entropy_reference(Ref& r) {
  const int64_t rows = r["N"], width = r["W"], vocab = r["vocab"] == 0 ? width : r["vocab"];
  const auto &logits = r.in("logits"), &targets = r.in("targets");
  const double scale = r.in("scale")[0];
  RefOutput& losses = r.out("losses");
  RefOutput* gradient = r.has("d_logits") ? &r.out("d_logits") : nullptr;
  losses.terms = static_cast<double>(vocab);
  if (gradient != nullptr) gradient->terms = static_cast<double>(vocab);
  for (int64_t n = 0; n < rows; ++n) {
    const auto target = static_cast<int64_t>(targets[n]);
    if (target == r["pad_id"]) continue;  // loss and gradient are zero
    const Row row(&logits[n * width], vocab);
    const bool valid = target < vocab;
    const double hit = valid ? logits[n * width + target] : std::numeric_limits<double>::quiet_NaN();
    losses.value[n] = row.log_sum - hit;
    losses.magnitude[n] = std::hypot(row.log_sum, hit, row.log_sum_size);
    if (gradient == nullptr) continue;
    for (int64_t c = 0; c < vocab; ++c) {
      const double one = valid && c == target ? 1 : 0;
      gradient->value[n * width + c] = scale * (row.p[c] - one);
      gradient->magnitude[n * width + c] = std::abs(scale) * std::hypot(row.p[c] * (1 + row.largest), one);
    }
  }
}

}  // namespace tang
