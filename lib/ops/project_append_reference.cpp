#include <cmath>

#include "lib/ops/project_append.h"

namespace tang {

namespace {

/// An entry of q|k|v, and the sum of the squares of its terms.
struct Product {
  double value = 0, squares = 0;
};

std::vector<Product> products_of(const Ref& r, int64_t b) {
  const int64_t depth = r["K"], columns = (r["H"] + 2 * r["Hkv"]) * r["D"];
  const auto &x = r.in("x"), &w = r.in("w"), &norm = r.in("norm");
  double squares = 0;
  for (int64_t k = 0; k < depth; ++k) squares += x[b * depth + k] * x[b * depth + k];
  const double rstd = 1 / std::sqrt(squares / static_cast<double>(depth) + r.scalar("eps"));
  std::vector<Product> products(static_cast<size_t>(columns));
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t k = 0; k < depth; ++k) {
      const double term = x[b * depth + k] * rstd * norm[k] * w[n * depth + k];
      products[n].value += term;
      products[n].squares += term * term;
    }
  }
  return products;
}

/// The head of products from `at` on, turned by `position`, to y[to].
void turn(const Ref& r, const std::vector<Product>& products, int64_t at, int64_t position, RefOutput& y,
          int64_t to) {
  const int64_t half = r["R2"];
  for (int64_t i = 0; i < half; ++i) {
    const double c = r.in("cos")[position * half + i], s = r.in("sin")[position * half + i];
    const Product &low = products[at + i], &high = products[at + half + i];
    // A product is stored before it is turned: it is a term of its own, besides those that it sums.
    const double l = low.squares + low.value * low.value, h = high.squares + high.value * high.value;
    y.value[to + i] = low.value * c - high.value * s;
    y.value[to + half + i] = high.value * c + low.value * s;
    y.magnitude[to + i] = std::sqrt(l * c * c + h * s * s);
    y.magnitude[to + half + i] = std::sqrt(h * c * c + l * s * s);
  }
}

}  // namespace

void project_append_reference(Ref& r) {
  const int64_t heads = r["H"], kv_heads = r["Hkv"], dim = r["D"];
  RefOutput &q = r.out("q"), &k_cache = r.out("k_cache"), &v_cache = r.out("v_cache");
  // The norm's roundings of x: as in matvec. Two stored products, of equal size at worst: 2 / sqrt(2).
  constexpr double norm_roundings = 2.4, stored_products = 1.5;
  q.terms = k_cache.terms = static_cast<double>(r["K"] + 2);
  v_cache.terms = static_cast<double>(r["K"]);
  q.extra_roundings = k_cache.extra_roundings = norm_roundings + stored_products;
  v_cache.extra_roundings = norm_roundings;
  k_cache.value = r.in("k_cache");
  v_cache.value = r.in("v_cache");
  for (int64_t b = 0; b < r["B"]; ++b) {
    const std::vector<Product> products = products_of(r, b);
    const auto position = static_cast<int64_t>(r.in("start")[b]);
    for (int64_t h = 0; h < heads; ++h) turn(r, products, h * dim, position, q, (b * heads + h) * dim);
    for (int64_t h = 0; h < kv_heads; ++h) {
      const int64_t to = ((b * r["S"] + position) * kv_heads + h) * dim;
      turn(r, products, (heads + h) * dim, position, k_cache, to);
      for (int64_t d = 0; d < dim; ++d) {
        const Product& v = products[(heads + kv_heads + h) * dim + d];
        v_cache.value[to + d] = v.value;
        v_cache.magnitude[to + d] = std::sqrt(v.squares);
      }
    }
  }
}

}  // namespace tang
