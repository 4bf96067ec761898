#include "lib/ops/matvec.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/ops/elementwise.h"
#include "lib/ops/next_token.h"
#include "lib/ops/project_append.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rope.h"
#include "lib/ops/rope_append.h"
#include "lib/ops/swiglu.h"

namespace tang {
namespace {

std::vector<bf16> random_bf16(int64_t count, uint64_t stream) {
  std::vector<bf16> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(bf16(static_cast<float>(Rng(5, stream).normal(static_cast<uint64_t>(i)))));
  return values;
}

}  // namespace

TEST_CASE("matvec: what joins in gives the bits of ops of their own") {
  const int64_t batch = 3, rows = 37, depth = 96;
  CpuDevice device(2);
  auto x = random_bf16(batch * depth, 1), norm = random_bf16(depth, 2), gate = random_bf16(batch * depth, 3),
       w = random_bf16(rows * depth, 4), residual = random_bf16(batch * rows, 5);
  const auto view = [](std::vector<bf16>& values, int64_t n, int64_t k) {
    return View(values.data(), Dtype::bf16, {n, k});
  };
  const View weight(norm.data(), Dtype::bf16, {depth});
  std::vector<bf16> together = residual, normed = x, gated = x, product = residual, apart = residual;
  matvec(device, {.x = view(x, batch, depth),
                  .w = view(w, rows, depth),
                  .norm = weight,
                  .gate = view(gate, batch, depth),
                  .residual = view(together, batch, rows),
                  .y = view(together, batch, rows)});
  std::vector<float> rstd(batch);
  rmsnorm_forward(device, {.x = view(x, batch, depth),
                           .w = weight,
                           .y = view(normed, batch, depth),
                           .rstd = View(rstd.data(), Dtype::f32, {batch})});
  swiglu_forward(
      device,
      {.gate = view(gate, batch, depth), .up = view(normed, batch, depth), .y = view(gated, batch, depth)});
  matvec(device,
         {.x = view(gated, batch, depth), .w = view(w, rows, depth), .y = view(product, batch, rows)});
  add(device,
      {.a = view(product, batch, rows), .b = view(residual, batch, rows), .y = view(apart, batch, rows)});
  for (size_t i = 0; i < apart.size(); ++i) CHECK(together[i].bits == apart[i].bits);
}

TEST_CASE(
    "project_append: the bits of matvec and rope_append, and the other rows of the caches as they were") {
  const int64_t batch = 2, depth = 48, heads = 4, kv_heads = 2, dim = 8, capacity = 5;
  const int64_t columns = (heads + 2 * kv_heads) * dim, cached = batch * capacity * kv_heads * dim;
  CpuDevice device(2);
  auto x = random_bf16(batch * depth, 1), norm = random_bf16(depth, 2), w = random_bf16(columns * depth, 3);
  std::vector<bf16> rows(static_cast<size_t>(batch * columns)), q(static_cast<size_t>(batch * heads * dim));
  std::vector<bf16> keys = random_bf16(cached, 4), values = random_bf16(cached, 5);
  std::vector<bf16> keys_apart = keys, values_apart = values;
  const RopeTables tables = rope_tables(capacity, dim, 10000);
  std::vector<float> cos = tables.cos, sin = tables.sin;
  std::vector<uint32_t> start = {4, 1};
  const View x_view(x.data(), Dtype::bf16, {batch, depth}), norm_view(norm.data(), Dtype::bf16, {depth});
  const View w_view(w.data(), Dtype::bf16, {columns, depth}), start_view(start.data(), Dtype::u32, {batch});
  const View cos_view(cos.data(), Dtype::f32, {capacity, dim / 2}),
      sin_view(sin.data(), Dtype::f32, {capacity, dim / 2});
  const View product(rows.data(), Dtype::bf16, {batch, columns});
  const auto cache = [&](std::vector<bf16>& memory) {
    return View(memory.data(), Dtype::bf16, {batch, capacity, kv_heads, dim});
  };
  const auto part = [&](int64_t first, int64_t count) {
    return product.slice(1, first * dim, (first + count) * dim).reshape({batch, 1, count, dim});
  };
  project_append(device, {.x = x_view,
                          .w = w_view,
                          .norm = norm_view,
                          .cos = cos_view,
                          .sin = sin_view,
                          .start = start_view,
                          .q = View(q.data(), Dtype::bf16, {batch, heads, dim}),
                          .k_cache = cache(keys),
                          .v_cache = cache(values)});
  matvec(device, {.x = x_view, .w = w_view, .norm = norm_view, .y = product});
  rope_append(device, {.q = part(0, heads),
                       .k = part(heads, kv_heads),
                       .v = part(heads + kv_heads, kv_heads),
                       .cos = cos_view,
                       .sin = sin_view,
                       .start = start_view,
                       .y = part(0, heads),
                       .k_cache = cache(keys_apart),
                       .v_cache = cache(values_apart)});
  for (int64_t i = 0; i < batch * heads * dim; ++i)
    CHECK(q[i].bits == rows[i / (heads * dim) * columns + i % (heads * dim)].bits);
  for (int64_t i = 0; i < cached; ++i) {
    CHECK(keys[i].bits == keys_apart[i].bits);
    CHECK(values[i].bits == values_apart[i].bits);
  }
}

TEST_CASE("next_token: the first of equals, never NaN, never padding, never past the last position") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> logits = {1,   4,   4,   9,  //
                               nan, -2,  -1,  9,  //
                               nan, nan, nan, 9};
  std::vector<uint32_t> ids = {7, 7, 7}, start = {0, 4, 5};
  std::vector<uint32_t> ring(12, 8);
  CpuDevice device(1);
  next_token(device, {.logits = View(logits.data(), Dtype::f32, {3, 4}),
                      .ids = View(ids.data(), Dtype::u32, {3}),
                      .start = View(start.data(), Dtype::u32, {3}),
                      .ring = View(ring.data(), Dtype::u32, {3, 4}),
                      .vocab = 3,
                      .last = 5});
  CHECK(ids == std::vector<uint32_t>{1, 2, 0});
  CHECK(start == std::vector<uint32_t>{1, 5, 5});
  CHECK(ring == std::vector<uint32_t>{8, 1, 8, 8,    // position 1
                                      8, 2, 8, 8,    // 5
                                      8, 8, 0, 8});  // 6: where the last one would be
  CHECK_THROWS_AS(next_token(device, {.logits = View(logits.data(), Dtype::f32, {3, 4}),
                                      .ids = View(ids.data(), Dtype::u32, {3}),
                                      .start = View(start.data(), Dtype::u32, {3}),
                                      .y = View(logits.data(), Dtype::f32, {3, 4})}),
                  Error);
}

}  // namespace tang
