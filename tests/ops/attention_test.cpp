#include "lib/ops/attention_cuda.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/rng.h"

namespace tang {

namespace {

/// Forward and backward of one shape on the CPU, in memory of its own.
struct Attention {
  int64_t batch, length, heads, kv_heads, dim;
  CpuDevice device{2};
  std::vector<float> q, k, v, o, lse, d_o, dq, dk, dv;

  Attention(int64_t b, int64_t t, int64_t h, int64_t hkv, int64_t d)
      : batch(b), length(t), heads(h), kv_heads(hkv), dim(d) {
    const size_t rows = static_cast<size_t>(b * t);
    for (auto* tensor : {&q, &o, &d_o, &dq}) tensor->assign(rows * h * d, std::nanf(""));
    for (auto* tensor : {&k, &v, &dk, &dv}) tensor->assign(rows * hkv * d, std::nanf(""));
    lse.assign(rows * h, std::nanf(""));
    uint64_t stream = 0;
    for (auto* tensor : {&q, &k, &v, &d_o}) {
      const Rng rng(7, stream++);
      for (size_t i = 0; i < tensor->size(); ++i) (*tensor)[i] = static_cast<float>(rng.normal(i));
    }
  }

  View queries(std::vector<float>& data) { return {data.data(), Dtype::f32, {batch, length, heads, dim}}; }
  View keys(std::vector<float>& data) { return {data.data(), Dtype::f32, {batch, length, kv_heads, dim}}; }
  View statistics() { return {lse.data(), Dtype::f32, {batch, heads, length}}; }

  void forward() {
    attention_forward(device,
                      {.q = queries(q), .k = keys(k), .v = keys(v), .o = queries(o), .lse = statistics()});
  }
  void backward() {
    attention_backward(device, {.q = queries(q),
                                .k = keys(k),
                                .v = keys(v),
                                .o = queries(o),
                                .d_o = queries(d_o),
                                .lse = statistics(),
                                .dq = queries(dq),
                                .dk = keys(dk),
                                .dv = keys(dv)});
  }
};

/// The message of the input error that `call` must raise, or "".
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

bool all_finite(const std::vector<float>& values) {
  for (const float value : values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("ops: attention's first outputs do not change when the sequence is longer") {
  const int64_t heads = 4, kv_heads = 2, dim = 16, whole = 131;
  Attention full(1, whole, heads, kv_heads, dim);
  full.forward();
  for (const int64_t length : {1, 2, 63, 64, 65, 127, 129}) {
    CAPTURE(length);
    Attention prefix(1, length, heads, kv_heads, dim);
    std::copy_n(full.q.begin(), prefix.q.size(), prefix.q.begin());
    std::copy_n(full.k.begin(), prefix.k.size(), prefix.k.begin());
    std::copy_n(full.v.begin(), prefix.v.size(), prefix.v.begin());
    prefix.forward();
    CHECK(std::memcmp(prefix.o.data(), full.o.data(), prefix.o.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("ops: attention with grouped heads equals attention with repeated KV heads") {
  const int64_t batch = 2, length = 70, heads = 6, kv_heads = 2, group = 3, dim = 8;
  Attention grouped(batch, length, heads, kv_heads, dim), repeated(batch, length, heads, heads, dim);
  repeated.q = grouped.q;
  repeated.d_o = grouped.d_o;
  const auto at = [&](int64_t row, int64_t head) { return (row * kv_heads + head) * dim; };
  for (int64_t row = 0; row < batch * length; ++row) {
    for (int64_t head = 0; head < heads; ++head) {
      std::copy_n(&grouped.k[at(row, head / group)], dim, &repeated.k[(row * heads + head) * dim]);
      std::copy_n(&grouped.v[at(row, head / group)], dim, &repeated.v[(row * heads + head) * dim]);
    }
  }
  for (Attention* each : {&grouped, &repeated}) each->forward(), each->backward();
  CHECK(grouped.o == repeated.o);
  CHECK(grouped.dq == repeated.dq);
  double worst = 0;
  for (int64_t row = 0; row < batch * length; ++row) {
    for (int64_t head = 0; head < kv_heads; ++head) {
      for (int64_t d = 0; d < dim; ++d) {
        double dk = 0, dv = 0;
        for (int64_t g = 0; g < group; ++g) {
          dk += repeated.dk[(row * heads + head * group + g) * dim + d];
          dv += repeated.dv[(row * heads + head * group + g) * dim + d];
        }
        worst = std::max(worst, std::abs(dk - grouped.dk[at(row, head) + d]));
        worst = std::max(worst, std::abs(dv - grouped.dv[at(row, head) + d]));
      }
    }
  }
  CHECK(worst < 2e-5);
}

TEST_CASE("ops: attention's gradients stay finite when every score is near -120 (S07)") {
  for (const int64_t length : {640, 704}) {
    CAPTURE(length);
    Attention a(1, length, 1, 1, 64);
    // q · k / sqrt(64) = 64 · (−15) · 1 / 8 = −120, give or take what the noise adds.
    for (float& value : a.q) value = -15 + 0.01f * value;
    for (float& value : a.k) value = 1 + 0.01f * value;
    a.forward();
    for (const float lse : a.lse) CHECK(lse < -100);
    a.backward();
    for (const auto* gradient : {&a.o, &a.dq, &a.dk, &a.dv}) CHECK(all_finite(*gradient));
    // The weights of a query sum to one, so the columns of dv sum to those of d_o: no padded key took a
    // share.
    for (int64_t d = 0; d < a.dim; ++d) {
      double sum = 0;
      for (int64_t t = 0; t < length; ++t) sum += a.dv[t * a.dim + d] - a.d_o[t * a.dim + d];
      CHECK(std::abs(sum) < 0.02);
    }
  }
}

TEST_CASE("ops: a sequence's attention gradients do not depend on the batch around it") {
  Attention pair(2, 65, 16, 2, 128), alone(1, 65, 16, 2, 128);
  const auto second = [](const std::vector<float>& data) {
    return std::vector<float>(data.begin() + static_cast<int64_t>(data.size() / 2), data.end());
  };
  alone.q = second(pair.q), alone.k = second(pair.k), alone.v = second(pair.v), alone.d_o = second(pair.d_o);
  for (Attention* each : {&pair, &alone}) each->forward(), each->backward();
  CHECK(second(pair.o) == alone.o);
  CHECK(second(pair.dq) == alone.dq);
  CHECK(second(pair.dk) == alone.dk);
  CHECK(second(pair.dv) == alone.dv);
}

TEST_CASE("ops: attention reads heads from packed QKV rows and writes only its own columns") {
  const int64_t length = 67, heads = 4, kv_heads = 2, dim = 16, width = (heads + 2 * kv_heads) * dim;
  Attention a(1, length, heads, kv_heads, dim);
  a.forward();
  std::vector<float> packed(length * width), out(length * width, 5.0f), lse(heads * length);
  for (int64_t t = 0; t < length; ++t) {
    std::copy_n(&a.q[t * heads * dim], heads * dim, &packed[t * width]);
    std::copy_n(&a.k[t * kv_heads * dim], kv_heads * dim, &packed[t * width + heads * dim]);
    std::copy_n(&a.v[t * kv_heads * dim], kv_heads * dim, &packed[t * width + (heads + kv_heads) * dim]);
  }
  const View qkv(packed.data(), Dtype::f32, {1, length, heads + 2 * kv_heads, dim});
  const View target(out.data(), Dtype::f32, {1, length, heads + 2 * kv_heads, dim});
  attention_forward(a.device, {.q = qkv.slice(2, 0, heads),
                               .k = qkv.slice(2, heads, heads + kv_heads),
                               .v = qkv.slice(2, heads + kv_heads, heads + 2 * kv_heads),
                               .o = target.slice(2, 0, heads),
                               .lse = View(lse.data(), Dtype::f32, {1, heads, length})});
  CHECK(lse == a.lse);
  for (int64_t t = 0; t < length; ++t) {
    CHECK(std::memcmp(&out[t * width], &a.o[t * heads * dim], heads * dim * sizeof(float)) == 0);
    for (int64_t c = heads * dim; c < width; ++c) REQUIRE(out[t * width + c] == 5.0f);
  }
}

TEST_CASE(
    "ops: attention refuses heads that do not share evenly, and head sizes past 256, by their numbers") {
  for (const auto& [heads, kv_heads] : {std::pair<int64_t, int64_t>{33, 2}, {3, 2}, {7, 2}}) {
    Attention a(1, 4, heads, kv_heads, 4);
    const std::string forward = refusal([&] { a.forward(); }), backward = refusal([&] { a.backward(); });
    for (const std::string& message : {forward, backward}) {
      CAPTURE(message);
      CHECK(contains(message, "H % Hkv"));
      CHECK(contains(message, std::to_string(heads).c_str()));
      CHECK(contains(message, "Hkv = 2"));
    }
  }
  Attention wide(1, 2, 1, 1, 257);
  const std::string message = refusal([&] { wide.forward(); });
  CAPTURE(message);
  CHECK(contains(message, "256"));
  CHECK(contains(message, "257"));
  Attention widest(1, 2, 1, 1, 256);
  widest.forward();
  CHECK(all_finite(widest.o));
}

TEST_CASE(
    "ops: f32 attention on FFMA units takes head sizes in steps of 4 up to 128, rows aligned to 16 bytes") {
  AttentionForward args{.q = View(reinterpret_cast<void*>(4096), Dtype::f32, {1, 3, 2, 64}), .lse = {}};
  args.k = args.v = args.o = args.q;
  CHECK(attention_forward_simt_supports({}, args).empty());
  args.v.data = reinterpret_cast<void*>(4100);
  CHECK(contains(attention_forward_simt_supports({}, args), "v with rows aligned to 16 bytes"));
  for (const int64_t dim : {59, 6, 132, 256}) {
    args.q = View(reinterpret_cast<void*>(4096), Dtype::f32, {1, 3, 2, dim});
    CHECK(contains(attention_forward_simt_supports({}, args), std::to_string(dim).c_str()));
  }
  args.q = View(reinterpret_cast<void*>(4096), Dtype::bf16, {1, 3, 2, 64});
  CHECK(contains(attention_forward_simt_supports({}, args), "bf16"));
}

}  // namespace tang
