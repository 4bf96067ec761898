#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/ops/embedding.h"

namespace tang {

void embedding_forward_reference(Ref& r) {
  const int64_t rows = r["N"], vocab = r["V"], dim = r["C"];
  const auto &ids = r.in("ids"), &table = r.in("table");
  RefOutput& y = r.out("y");
  for (int64_t n = 0; n < rows; ++n) {
    const auto id = static_cast<int64_t>(ids[n]);
    for (int64_t c = 0; c < dim; ++c) {
      y.value[n * dim + c] = id < vocab ? table[id * dim + c] : std::numeric_limits<double>::quiet_NaN();
    }
  }
}

void embedding_backward_reference(Ref& r) {
  const int64_t rows = r["N"], vocab = r["V"], dim = r["C"];
  const auto &ids = r.in("ids"), &dy = r.in("dy");
  RefOutput& d_table = r.out("d_table");
  std::vector<int64_t> occurrences(static_cast<size_t>(vocab), 0);
  if (r.flag("accumulate")) d_table.value = r.in("d_table");
  for (int64_t i = 0; i < vocab * dim; ++i) d_table.magnitude[i] = d_table.value[i] * d_table.value[i];
  for (int64_t n = 0; n < rows; ++n) {
    const auto id = static_cast<int64_t>(ids[n]);
    if (id >= vocab) continue;
    ++occurrences[id];
    for (int64_t c = 0; c < dim; ++c) {
      const double term = dy[n * dim + c];
      d_table.value[id * dim + c] += term;
      d_table.magnitude[id * dim + c] += term * term;
    }
  }
  for (double& m : d_table.magnitude) m = std::sqrt(m);
  d_table.terms = static_cast<double>(1 + *std::max_element(occurrences.begin(), occurrences.end()));
}

}  // namespace tang
