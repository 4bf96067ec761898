#include <cmath>

#include "lib/ops/rope.h"

namespace tang {

namespace {

void turn(const Ref& r, const std::vector<double>& x, double direction, RefOutput& y) {
  const int64_t length = r["T"], heads = r["H"], dim = r["D"], half = r["R2"];
  const auto offset = static_cast<int64_t>(r.scalar("position"));
  const auto &cos = r.in("cos"), &sin = r.in("sin");
  y.terms = 2;
  for (int64_t n = 0; n < r["B"] * length * heads; ++n) {
    int64_t position = offset + n / heads % length;
    if (r.has("start")) position += static_cast<int64_t>(r.in("start")[n / (heads * length)]);
    for (int64_t d = 2 * half; d < dim; ++d) {
      y.value[n * dim + d] = x[n * dim + d];
      y.magnitude[n * dim + d] = std::abs(x[n * dim + d]);
    }
    for (int64_t i = 0; i < half; ++i) {
      const double c = cos[position * half + i], s = direction * sin[position * half + i];
      const int64_t low = n * dim + i, high = low + half;
      y.value[low] = x[low] * c - x[high] * s;
      y.value[high] = x[high] * c + x[low] * s;
      y.magnitude[low] = std::hypot(x[low] * c, x[high] * s);
      y.magnitude[high] = std::hypot(x[high] * c, x[low] * s);
    }
  }
}

}  // namespace

void rope_forward_reference(Ref& r) { turn(r, r.in("x"), 1, r.out("y")); }
void rope_backward_reference(Ref& r) { turn(r, r.in("dy"), -1, r.out("dx")); }

}  // namespace tang
