// The f64 reference of cached attention, and the plain f32 version that FA-RULE measures implementations by.
#include <algorithm>
#include <cmath>

#include "lib/ops/kv_attention.h"

namespace tang {

namespace {

/// Dims, and where rows lie in packed order.
struct Layout {
  int64_t batch, queries, capacity, heads, kv_heads, dim;
  double scale;

  explicit Layout(const Ref& r)
      : batch(r["B"]),
        queries(r["Q"]),
        capacity(r["S"]),
        heads(r["H"]),
        kv_heads(r["Hkv"]),
        dim(r["D"]),
        scale(r.scalar("scale") != 0 ? r.scalar("scale") : 1 / std::sqrt(static_cast<double>(dim))) {}

  int64_t query(int64_t b, int64_t i, int64_t h) const { return ((b * queries + i) * heads + h) * dim; }
  int64_t key(int64_t b, int64_t j, int64_t h) const {
    return ((b * capacity + j) * kv_heads + h / (heads / kv_heads)) * dim;
  }

  /// body(b, i, h, number of keys that the query sees).
  template <class Body>
  void each_row(const Ref& r, const Body& body) const {
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t i = 0; i < queries; ++i) {
        for (int64_t h = 0; h < heads; ++h) body(b, i, h, static_cast<int64_t>(r.in("start")[b]) + i + 1);
      }
    }
  }
};

}  // namespace

void kv_attention_reference(Ref& r) {
  const Layout l(r);
  const auto &q = r.in("q"), &k = r.in("k"), &v = r.in("v");
  RefOutput& o = r.out("o");
  o.terms = static_cast<double>(l.capacity + l.dim);
  std::vector<double> scores;
  l.each_row(r, [&](int64_t b, int64_t i, int64_t h, int64_t keys) {
    const int64_t row = l.query(b, i, h);
    scores.assign(static_cast<size_t>(keys), 0);
    double largest = 0;  // a score's own size, or its terms' where those cancel
    for (int64_t j = 0; j < keys; ++j) {
      double squares = 0;
      for (int64_t d = 0; d < l.dim; ++d) {
        const double term = q[row + d] * k[l.key(b, j, h) + d];
        scores[j] += term;
        squares += term * term;
      }
      scores[j] *= l.scale;
      largest = std::max({largest, std::abs(scores[j]), std::sqrt(squares) * std::abs(l.scale)});
    }
    const double maximum = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - maximum);
    for (int64_t j = 0; j < keys; ++j) {
      for (int64_t d = 0; d < l.dim; ++d) {
        const double term = scores[j] / sum * v[l.key(b, j, h) + d], size = term * (1 + largest);
        o.value[row + d] += term;
        o.magnitude[row + d] += size * size;
      }
    }
    for (int64_t d = 0; d < l.dim; ++d) o.magnitude[row + d] = std::sqrt(o.magnitude[row + d]);
  });
}

void kv_attention_plain(Ref& r) {
  const Layout l(r);
  const auto &q = r.in("q"), &k = r.in("k"), &v = r.in("v");
  std::vector<float> scores, o(static_cast<size_t>(l.dim));
  l.each_row(r, [&](int64_t b, int64_t i, int64_t h, int64_t keys) {
    const int64_t row = l.query(b, i, h);
    scores.assign(static_cast<size_t>(keys), 0);
    for (int64_t j = 0; j < keys; ++j) {
      for (int64_t d = 0; d < l.dim; ++d)
        scores[j] += static_cast<float>(q[row + d]) * static_cast<float>(k[l.key(b, j, h) + d]);
      scores[j] *= static_cast<float>(l.scale);
    }
    const float maximum = *std::max_element(scores.begin(), scores.end());
    float sum = 0;
    for (float& score : scores) sum += score = std::exp(score - maximum);
    std::fill(o.begin(), o.end(), 0.0f);
    for (int64_t j = 0; j < keys; ++j) {
      const auto weight = static_cast<float>(r.round(scores[j] / sum));
      for (int64_t d = 0; d < l.dim; ++d) o[d] += weight * static_cast<float>(v[l.key(b, j, h) + d]);
    }
    for (int64_t d = 0; d < l.dim; ++d) r.out("o").value[row + d] = r.round(o[d]);
  });
}

}  // namespace tang
