#include <algorithm>
#include <cmath>

#include "lib/ops/next_token.h"

namespace tang {

void next_token_reference(Ref& r) {
  const int64_t width = r["W"], vocab = r["vocab"] > 0 ? r["vocab"] : width;
  const auto& logits = r.in("logits");
  if (r.has("ring")) r.out("ring").value = r.in("ring");
  for (int64_t b = 0; b < r["B"]; ++b) {
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; ++i) {
      if (logits[b * width + i] > logits[b * width + best]) best = i;
    }
    r.out("ids").value[b] = static_cast<double>(best);
    if (r.has("ring")) {
      const auto slot = static_cast<int64_t>(r.in("start")[b] + 1) % r["R"];
      r.out("ring").value[b * r["R"] + slot] = static_cast<double>(best);
    }
    if (r.has("y")) {
      const auto row = r.in("table").begin() + best * r["C"];
      std::copy(row, row + r["C"], r.out("y").value.begin() + b * r["C"]);
    }
    r.out("start").value[b] = std::min(r.in("start")[b] + 1, r.scalar("last"));
  }
}

}  // namespace tang
