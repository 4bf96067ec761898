#include <cmath>

#include "lib/ops/reduce.h"

namespace tang {

void reduce_sum_reference(Ref& r) {
  const int64_t outer = r["O"], reduced = r["R"], inner = r["I"];
  const auto& x = r.in("x");
  RefOutput& y = r.out("y");
  y.terms = static_cast<double>(reduced + 1);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t at = o * inner + i;
      double sum = r.flag("accumulate") ? r.in("y")[at] : 0, squares = sum * sum;
      for (int64_t k = 0; k < reduced; ++k) {
        const double term = x[(o * reduced + k) * inner + i];
        sum += term;
        squares += term * term;
      }
      y.value[at] = sum;
      y.magnitude[at] = std::sqrt(squares);
    }
  }
}

}  // namespace tang
