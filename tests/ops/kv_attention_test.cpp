#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/ops/attention.h"
#include "lib/ops/kv_attention.h"

namespace tang {

namespace {

std::vector<float> gaussian(int64_t count, uint64_t stream) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(Rng(11, stream).normal(i));
  return values;
}

/// [B, S, Hkv, D] views of a cache: token-major rows [B, S, Hkv·D], or heads-major [B, Hkv, S, D].
View token_major(std::vector<float>& data, int64_t b, int64_t s, int64_t h, int64_t d) {
  return {data.data(), Dtype::f32, {b, s, h, d}};
}
View heads_major(std::vector<float>& data, int64_t b, int64_t s, int64_t h, int64_t d) {
  View view(data.data(), Dtype::f32, {b, h, s, d});
  std::swap(view.dims[1], view.dims[2]);
  std::swap(view.strides[1], view.strides[2]);
  return view;
}

/// A sequence of `length` rows, its training forward, and caches of both layouts that hold it with NaN after.
struct Prefilled {
  int64_t batch, length, capacity, heads, kv_heads, dim;
  CpuDevice device{2};
  std::vector<float> q, k, v, o, lse, caches[4];
  View k_views[2], v_views[2];  // token-major, heads-major

  Prefilled(int64_t b, int64_t t, int64_t s, int64_t h, int64_t hkv, int64_t d)
      : batch(b), length(t), capacity(s), heads(h), kv_heads(hkv), dim(d) {
    q = gaussian(b * t * h * d, 1), k = gaussian(b * t * hkv * d, 2), v = gaussian(b * t * hkv * d, 3);
    o.resize(q.size()), lse.resize(static_cast<size_t>(b * h * t));
    attention_forward(device, {.q = queries(q), .k = keys(k), .v = keys(v), .o = queries(o), .lse = stats()});
    for (auto& cache : caches) cache.assign(static_cast<size_t>(b * s * hkv * d), std::nanf(""));
    std::vector<uint32_t> start(static_cast<size_t>(b), 0);
    for (int layout = 0; layout < 2; ++layout) {
      const auto view = layout == 0 ? token_major : heads_major;
      k_views[layout] = view(caches[2 * layout], b, s, hkv, d);
      v_views[layout] = view(caches[2 * layout + 1], b, s, hkv, d);
      cache_append(device,
                   {.x = keys(k), .start = View(start.data(), Dtype::u32, {b}), .cache = k_views[layout]});
      cache_append(device,
                   {.x = keys(v), .start = View(start.data(), Dtype::u32, {b}), .cache = v_views[layout]});
    }
  }
  View queries(std::vector<float>& data) { return {data.data(), Dtype::f32, {batch, length, heads, dim}}; }
  View keys(std::vector<float>& data) { return {data.data(), Dtype::f32, {batch, length, kv_heads, dim}}; }
  View stats() { return {lse.data(), Dtype::f32, {batch, heads, length}}; }

  /// The last `count` queries of every sequence over a cache, packed.
  std::vector<float> decode(int layout, int64_t count) {
    std::vector<float> out(static_cast<size_t>(batch * count * heads * dim), std::nanf(""));
    std::vector<uint32_t> start(static_cast<size_t>(batch), static_cast<uint32_t>(length - count));
    kv_attention(device, {.q = queries(q).slice(1, length - count, length),
                          .k = k_views[layout],
                          .v = v_views[layout],
                          .start = View(start.data(), Dtype::u32, {batch}),
                          .o = View(out.data(), Dtype::f32, {batch, count, heads, dim})});
    return out;
  }
};

}  // namespace

TEST_CASE("kv_attention: prefill through views of an empty cache is the training forward, bit for bit") {
  for (const auto& [length, dim] : {std::pair<int64_t, int64_t>{3, 2}, {70, 16}, {129, 59}}) {
    Prefilled p(2, length, length + 5, 4, 2, dim);
    for (int layout = 0; layout < 2; ++layout) {
      CAPTURE(layout);
      std::vector<float> o(p.o.size(), std::nanf("")), lse(p.lse.size());
      attention_forward(p.device, {.q = p.queries(p.q),
                                   .k = p.k_views[layout].slice(1, 0, length),
                                   .v = p.v_views[layout].slice(1, 0, length),
                                   .o = p.queries(o),
                                   .lse = View(lse.data(), Dtype::f32, {2, 4, length})});
      CHECK(o == p.o);
      CHECK(lse == p.lse);
    }
  }
}

TEST_CASE("kv_attention: the last queries over a cache give the last rows of the same prefill") {
  for (const auto& [heads, kv_heads, length, dim] :
       {std::array<int64_t, 4>{2, 2, 3, 2}, {14, 2, 130, 64}, {15, 5, 65, 80}, {8, 1, 33, 59}}) {
    Prefilled p(2, length, length + 7, heads, kv_heads, dim);
    for (const int64_t count : {int64_t{1}, int64_t{3}, length}) {
      const std::vector<float> tokens = p.decode(0, count);
      CHECK(tokens == p.decode(1, count));
      const int64_t row = heads * dim;
      double worst = 0;
      for (int64_t b = 0; b < 2; ++b) {
        for (int64_t i = 0; i < count * row; ++i) {
          const double expected = p.o[((b + 1) * length - count) * row + i];
          worst = std::max(worst, std::abs(tokens[b * count * row + i] - expected));
        }
      }
      CHECK(worst <= 2e-6);
    }
  }
}

TEST_CASE("kv_attention: each sequence sees its own number of keys, and rows past them are never read") {
  CpuDevice device(2);
  const int64_t batch = 3, capacity = 70, dim = 8;
  std::vector<float> q(batch * dim, 0.0f), k(batch * capacity * dim, 0.0f), v(k.size()), o(q.size());
  std::vector<uint32_t> start = {0, 63, 69};
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t j = 0; j < capacity; ++j) {
      const bool seen = j <= start[b];
      for (int64_t d = 0; d < dim; ++d) {
        v[(b * capacity + j) * dim + d] = seen ? static_cast<float>(j) : std::nanf("");
        if (!seen) k[(b * capacity + j) * dim + d] = std::nanf("");
      }
    }
  }
  kv_attention(device, {.q = token_major(q, batch, 1, 1, dim),
                        .k = token_major(k, batch, capacity, 1, dim),
                        .v = token_major(v, batch, capacity, 1, dim),
                        .start = View(start.data(), Dtype::u32, {batch}),
                        .o = token_major(o, batch, 1, 1, dim)});
  for (int64_t b = 0; b < batch; ++b)
    CHECK(o[b * dim + 3] ==
          doctest::Approx(start[b] / 2.0).epsilon(1e-6));  // equal weights: the mean of 0 … start
}

TEST_CASE("kv_attention: shapes alone decide the splits, which cover the cache and fit the workspace") {
  const KvSplits decode = split_keys(32, 1, 4096, 16, 8, 64);
  CHECK(decode.rows == 2);
  CHECK(decode.chunks == 1);
  CHECK(decode.splits == 5);
  const KvSplits alone = split_keys(1, 1, 1000, 16, 8, 64);
  CHECK(alone.splits == 1);
  CHECK(alone.warps == 8);
  for (const int64_t batch : {1, 3, 32, 5000}) {
    for (const int64_t queries : {1, 3, 17, 65}) {
      for (const int64_t capacity : {65, 129, 1000, 4096, 131072}) {
        for (const auto& [heads, kv_heads] : {std::pair<int64_t, int64_t>{16, 8}, {14, 2}, {15, 5}, {8, 1}}) {
          const KvSplits plan = split_keys(batch, queries, capacity, heads, kv_heads, 64);
          CHECK(plan.rows >= 1);
          CHECK(plan.rows <= 8);
          CHECK(plan.rows * plan.chunks >= heads / kv_heads * queries);
          CHECK(plan.rows * (plan.chunks - 1) < heads / kv_heads * queries);
          CHECK(plan.splits * plan.split_keys >= capacity);
          CHECK((plan.splits - 1) * plan.split_keys < capacity);
          CHECK(plan.splits <= 256);
          void* memory = reinterpret_cast<void*>(256);
          const View q(memory, Dtype::bf16, {batch, queries, heads, 64});
          const View k(memory, Dtype::bf16, {batch, capacity, kv_heads, 64});
          const KvAttention args = {
              .q = q, .k = k, .v = k, .start = View(memory, Dtype::u32, {batch}), .o = q, .workspace = {}};
          const int64_t wanted = plan.splits > 1 ? batch * queries * heads * plan.splits * 66 * 4 : 0;
          CHECK(kv_attention.scratch_bytes(&args) >= wanted);
        }
      }
    }
  }
}

TEST_CASE("kv_attention: what cannot be is refused with the dimension's name") {
  CpuDevice device(1);
  std::vector<float> memory(4096);
  uint32_t start = 0;
  const auto refuse = [&](std::array<int64_t, 4> q, std::array<int64_t, 4> k, const char* says) {
    const auto view = [&](std::array<int64_t, 4> d) {
      return View(memory.data(), Dtype::f32, {d[0], d[1], d[2], d[3]});
    };
    const View start_view(&start, Dtype::u32, {1});
    const KvAttention args = {
        .q = view(q), .k = view(k), .v = view(k), .start = start_view, .o = view(q), .workspace = {}};
    CHECK_THROWS_WITH_AS(kv_attention(device, args), doctest::Contains(says), Error);
  };
  refuse({1, 2, 2, 4}, {1, 1, 2, 4}, "needs Q <= S");
  refuse({1, 1, 3, 4}, {1, 4, 2, 4}, "needs H % Hkv == 0");
  refuse({1, 1, 2, 257}, {1, 4, 2, 257}, "D <= 256");
  refuse({1, 1, 2, 4}, {1, int64_t{1} << 31, 2, 4}, "S < 2147483648");
  refuse({1, 1, 2, 4}, {2, 4, 2, 4}, "dimension 0 of k is 2");
  refuse({1, 1, 2, 4}, {1, 4, 2, 8}, "dimension 3 of k is 8");
  start = 4;
  const View q(memory.data(), Dtype::f32, {1, 1, 2, 4}), k(memory.data(), Dtype::f32, {1, 4, 2, 4});
  KvAttention args = {
      .q = q, .k = k, .v = k, .start = View(&start, Dtype::u32, {1}), .o = q, .workspace = {}};
  CHECK_THROWS_WITH_AS(kv_attention(device, args), doctest::Contains("start 4"), Error);
  args.k.data = nullptr;
  CHECK_THROWS_WITH_AS(kv_attention(device, args),
                       doctest::Contains("k is f32 [1, 4, 2, 4] but has no memory"), Error);
  args.k = {};
  CHECK_THROWS_WITH_AS(kv_attention(device, args), doctest::Contains("operand k [B S Hkv D] is missing"),
                       Error);
}

}  // namespace tang
