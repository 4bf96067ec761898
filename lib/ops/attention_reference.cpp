// The f64 reference of attention, and the plain version that FA-RULE measures implementations against: the
// textbook formula in f32, with the weights rounded to the mode's dtype before the second product.
#include <algorithm>
#include <cmath>

#include "lib/ops/attention.h"

namespace tang {

namespace {

/// Dims, the scale, and where things lie in packed order.
struct Layout {
  int64_t batch, length, heads, kv_heads, dim, group;
  double scale;

  explicit Layout(const Ref& r)
      : batch(r["B"]),
        length(r["T"]),
        heads(r["H"]),
        kv_heads(r["Hkv"]),
        dim(r["D"]),
        group(heads / kv_heads),
        scale(r.scalar("scale") != 0 ? r.scalar("scale") : 1 / std::sqrt(static_cast<double>(dim))) {}

  size_t query(int64_t b, int64_t t, int64_t h) const { return ((b * length + t) * heads + h) * dim; }
  size_t key(int64_t b, int64_t t, int64_t h) const {
    return ((b * length + t) * kv_heads + h / group) * dim;
  }
  size_t statistic(int64_t b, int64_t t, int64_t h) const { return (b * heads + h) * length + t; }

  /// body(b, t, h) for every query row.
  template <class Body>
  void each_row(const Body& body) const {
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t t = 0; t < length; ++t) body(b, t, h);
      }
    }
  }
};

/// A dot product and the root of its terms' squares.
struct Dot {
  double value = 0, magnitude = 0;
};
Dot dot(const double* a, const double* b, int64_t count) {
  Dot result;
  for (int64_t i = 0; i < count; ++i) {
    const double term = a[i] * b[i];
    result.value += term;
    result.magnitude += term * term;
  }
  result.magnitude = std::sqrt(result.magnitude);
  return result;
}

/// Scaled scores of one query row, and the largest size of an exponential's argument among them.
struct Scores {
  std::vector<double> value;  // keys 0 … t
  double largest = 0;         // a score's own size, or its terms' where those cancel

  Scores(const Ref& r, const Layout& l, int64_t b, int64_t t, int64_t h) {
    const double* q = r.in("q").data() + l.query(b, t, h);
    const auto& k = r.in("k");
    for (int64_t j = 0; j <= t; ++j) {
      const Dot score = dot(q, k.data() + l.key(b, j, h), l.dim);
      value.push_back(score.value * l.scale);
      largest = std::max({largest, std::abs(value.back()), score.magnitude * l.scale});
    }
  }
};

void take_root(RefOutput& output) {
  for (double& square : output.magnitude) square = std::sqrt(square);
}

/// Adds a term to an element's value and, for now squared, magnitude.
void add(RefOutput& output, size_t at, double term, double size) {
  output.value[at] += term;
  output.magnitude[at] += size * size;
}

}  // namespace

void attention_forward_reference(Ref& r) {
  const Layout l(r);
  const auto& v = r.in("v");
  RefOutput &o = r.out("o"), &lse = r.out("lse");
  o.terms = lse.terms = static_cast<double>(l.length + l.dim);
  // Tensor cores take the weights in the mode's dtype: each term of the sum is rounded by up to u, so four
  // standard deviations of the sum are 4 / sqrt(3) u.
  o.extra_roundings = 4 / std::sqrt(3.0);
  l.each_row([&](int64_t b, int64_t t, int64_t h) {
    const Scores scores(r, l, b, t, h);
    const double maximum = *std::max_element(scores.value.begin(), scores.value.end());
    double sum = 0;
    for (const double score : scores.value) sum += std::exp(score - maximum);
    const size_t statistic = l.statistic(b, t, h);
    lse.value[statistic] = maximum + std::log(sum);
    lse.magnitude[statistic] = 1 + scores.largest;
    for (int64_t j = 0; j <= t; ++j) {
      const double weight = std::exp(scores.value[j] - lse.value[statistic]);
      for (int64_t d = 0; d < l.dim; ++d) {
        const double term = weight * v[l.key(b, j, h) + d];
        add(o, l.query(b, t, h) + d, term, term * (1 + scores.largest));
      }
    }
  });
  take_root(o);
}

void attention_backward_reference(Ref& r) {
  const Layout l(r);
  const auto &q = r.in("q"), &k = r.in("k"), &v = r.in("v"), &o = r.in("o"), &d_o = r.in("d_o");
  RefOutput &dq = r.out("dq"), &dk = r.out("dk"), &dv = r.out("dv");
  dq.terms = static_cast<double>(l.length + l.dim);
  dk.terms = dv.terms = static_cast<double>(l.group * l.length + l.dim);
  dq.extra_roundings = dk.extra_roundings = dv.extra_roundings =
      1;  // weights, or score gradients, as operands
  l.each_row([&](int64_t b, int64_t t, int64_t h) {
    const Scores scores(r, l, b, t, h);
    const double lse = r.in("lse")[l.statistic(b, t, h)];
    const double growth = 1 + std::max(scores.largest, std::abs(lse));
    const size_t row = l.query(b, t, h);
    const Dot delta = dot(&o[row], &d_o[row], l.dim);
    for (int64_t j = 0; j <= t; ++j) {
      const size_t column = l.key(b, j, h);
      const double weight = std::exp(scores.value[j] - lse);
      const Dot product = dot(&d_o[row], &v[column], l.dim);
      const double dscore = weight * (product.value - delta.value) * l.scale;
      const double size = weight * growth * l.scale *
                          std::hypot(std::max(std::abs(product.value), product.magnitude),
                                     std::max(std::abs(delta.value), delta.magnitude));
      for (int64_t d = 0; d < l.dim; ++d) {
        add(dq, row + d, dscore * k[column + d], size * k[column + d]);
        add(dk, column + d, dscore * q[row + d], size * q[row + d]);
        add(dv, column + d, weight * d_o[row + d], weight * growth * d_o[row + d]);
      }
    }
  });
  take_root(dq);
  take_root(dk);
  take_root(dv);
}

namespace {

float dot_f32(const double* a, const double* b, int64_t count) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
  return sum;
}

std::vector<float> scores_f32(const Ref& r, const Layout& l, int64_t b, int64_t t, int64_t h) {
  std::vector<float> scores;
  for (int64_t j = 0; j <= t; ++j) {
    scores.push_back(dot_f32(&r.in("q")[l.query(b, t, h)], &r.in("k")[l.key(b, j, h)], l.dim) *
                     static_cast<float>(l.scale));
  }
  return scores;
}

/// total += weight · x, in f32.
void add_f32(float* total, float weight, const double* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) total[i] += weight * static_cast<float>(x[i]);
}

/// Writes f32 totals as the mode stores them.
void keep(Ref& r, std::string_view name, const std::vector<float>& totals) {
  for (size_t i = 0; i < totals.size(); ++i) r.out(name).value[i] = r.round(totals[i]);
}

}  // namespace

void attention_forward_plain(Ref& r) {
  const Layout l(r);
  std::vector<float> o(r.out("o").value.size(), 0.0f);
  l.each_row([&](int64_t b, int64_t t, int64_t h) {
    std::vector<float> scores = scores_f32(r, l, b, t, h);
    const float maximum = *std::max_element(scores.begin(), scores.end());
    float sum = 0;
    for (float& score : scores) sum += score = std::exp(score - maximum);
    r.out("lse").value[l.statistic(b, t, h)] = maximum + std::log(sum);
    for (int64_t j = 0; j <= t; ++j) {
      const float weight = static_cast<float>(r.round(scores[j] / sum));
      add_f32(&o[l.query(b, t, h)], weight, &r.in("v")[l.key(b, j, h)], l.dim);
    }
  });
  keep(r, "o", o);
}

void attention_backward_plain(Ref& r) {
  const Layout l(r);
  const auto &q = r.in("q"), &k = r.in("k"), &v = r.in("v"), &o = r.in("o"), &d_o = r.in("d_o");
  const float scale = static_cast<float>(l.scale);
  std::vector<float> dq(q.size(), 0.0f), dk(k.size(), 0.0f), dv(v.size(), 0.0f);
  l.each_row([&](int64_t b, int64_t t, int64_t h) {
    const std::vector<float> scores = scores_f32(r, l, b, t, h);
    const float lse = static_cast<float>(r.in("lse")[l.statistic(b, t, h)]);
    const size_t row = l.query(b, t, h);
    // Summed in two halves, as vector code would: with one key and the other product's order, it would cancel
    // that product exactly, and leave no error to be measured by.
    const int64_t half = l.dim / 2;
    const float delta =
        dot_f32(&o[row], &d_o[row], half) + dot_f32(&o[row + half], &d_o[row + half], l.dim - half);
    for (int64_t j = 0; j <= t; ++j) {
      const size_t column = l.key(b, j, h);
      const float weight = std::exp(scores[j] - lse);
      const float gradient = weight * (dot_f32(&d_o[row], &v[column], l.dim) - delta);
      const float dscore = static_cast<float>(r.round(gradient)) * scale;
      add_f32(&dq[row], dscore, &k[column], l.dim);
      add_f32(&dk[column], dscore, &q[row], l.dim);
      add_f32(&dv[column], static_cast<float>(r.round(weight)), &d_o[row], l.dim);
    }
  });
  keep(r, "dq", dq);
  keep(r, "dk", dk);
  keep(r, "dv", dv);
}

}  // namespace tang
