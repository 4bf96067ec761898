#include <cmath>

#include "lib/ops/rope_append.h"

namespace tang {

namespace {

/// The head at x[at] turned, to y[to].
void turn(const Ref& r, const std::vector<double>& x, int64_t at, int64_t position, RefOutput& y,
          int64_t to) {
  const int64_t half = r["R2"];
  for (int64_t i = 0; i < half; ++i) {
    const double c = r.in("cos")[position * half + i], s = r.in("sin")[position * half + i];
    const double low = x[at + i], high = x[at + half + i];
    y.value[to + i] = low * c - high * s;
    y.value[to + half + i] = high * c + low * s;
    y.magnitude[to + i] = std::hypot(low * c, high * s);
    y.magnitude[to + half + i] = std::hypot(high * c, low * s);
  }
}

}  // namespace

void rope_append_reference(Ref& r) {
  const int64_t batch = r["B"], rows = r["Q"], heads = r["H"], kv_heads = r["Hkv"], dim = r["D"];
  const auto &k = r.in("k"), &v = r.in("v");
  RefOutput &y = r.out("y"), &k_cache = r.out("k_cache"), &v_cache = r.out("v_cache");
  y.terms = k_cache.terms = 2;
  k_cache.value = r.in("k_cache");
  v_cache.value = r.in("v_cache");
  for (int64_t n = 0; n < batch * rows; ++n) {
    const int64_t b = n / rows, position = static_cast<int64_t>(r.in("start")[b]) + n % rows;
    for (int64_t h = 0; h < heads; ++h)
      turn(r, r.in("q"), (n * heads + h) * dim, position, y, (n * heads + h) * dim);
    for (int64_t h = 0; h < kv_heads; ++h) {
      const int64_t from = (n * kv_heads + h) * dim, to = ((b * r["S"] + position) * kv_heads + h) * dim;
      turn(r, k, from, position, k_cache, to);
      for (int64_t d = 0; d < dim; ++d) v_cache.value[to + d] = v[from + d];
    }
  }
}

}  // namespace tang
