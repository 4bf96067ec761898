#include <doctest/doctest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "lib/base/error.h"
#include "lib/ops/kv_attention.h"

namespace tang {

namespace {

std::vector<float> counting(int64_t count, float from) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), from);
  return values;
}

}  // namespace

TEST_CASE("cache: appending writes the new rows of each sequence and head, and nothing else") {
  CpuDevice device(2);
  const int64_t batch = 2, rows = 2, capacity = 5, heads = 2, dim = 3;
  std::vector<float> x = counting(batch * rows * heads * dim, 1);
  std::vector<uint32_t> start = {0, 3};
  for (const bool heads_first : {false, true}) {
    std::vector<float> memory(batch * capacity * heads * dim, -1.0f);
    View cache(memory.data(), Dtype::f32, {batch, capacity, heads, dim});
    if (heads_first) cache.strides = {capacity * heads * dim, dim, capacity * dim, 1};
    cache_append(device, {.x = View(x.data(), Dtype::f32, {batch, rows, heads, dim}),
                          .start = View(start.data(), Dtype::u32, {batch}),
                          .cache = cache});
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t s = 0; s < capacity; ++s) {
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t d = 0; d < dim; ++d) {
            const int64_t i = s - start[b];
            const float expected = i >= 0 && i < rows ? x[((b * rows + i) * heads + h) * dim + d] : -1.0f;
            CHECK(memory[b * cache.stride(0) + s * cache.stride(1) + h * cache.stride(2) + d] == expected);
          }
        }
      }
    }
  }
}

TEST_CASE("cache: concatenation keeps every head's rows in place, from an empty cache on") {
  CpuDevice device(1);
  const int64_t heads = 2, dim = 2;
  std::vector<float> cache;
  for (int64_t rows = 0; rows < 4; ++rows) {
    std::vector<float> fresh = counting(heads * dim, static_cast<float>(10 * rows));
    std::vector<float> longer(heads * (rows + 1) * dim, -1.0f);
    float nothing = 0;
    cache_concat(device, {.old = View(rows > 0 ? cache.data() : &nothing, Dtype::f32, {heads, rows, dim}),
                          .fresh = View(fresh.data(), Dtype::f32, {heads, 1, dim}),
                          .y = View(longer.data(), Dtype::f32, {heads, rows + 1, dim})});
    cache = longer;
  }
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t row = 0; row < 4; ++row) {
      for (int64_t d = 0; d < dim; ++d) CHECK(cache[(h * 4 + row) * dim + d] == 10 * row + h * dim + d);
    }
  }
}

TEST_CASE("cache: lengths, absent caches and dimensions past 32 bits are refused in one sentence each") {
  CpuDevice device(1);
  std::vector<float> memory(64);
  uint32_t start = 3;
  const auto view = [&](std::initializer_list<int64_t> dims) {
    return View(memory.data(), Dtype::f32, dims);
  };
  const View position(&start, Dtype::u32, {1});
  const auto append = [&](const View& x, const View& cache) {
    cache_append(device, {.x = x, .start = position, .cache = cache});
  };
  CHECK_THROWS_WITH_AS(append(view({1, 2, 2, 2}), view({1, 4, 2, 2})),
                       doctest::Contains("start 3 and Q = 2 new rows, which passes the cache's S = 4"),
                       Error);
  CHECK_THROWS_WITH_AS(append(view({1, 5, 2, 2}), view({1, 4, 2, 2})), doctest::Contains("needs Q <= S"),
                       Error);
  CHECK_THROWS_WITH_AS(append(view({1, 1, 2, 2}), view({1, 4, 1, 2})),
                       doctest::Contains("dimension 2 of cache is 1"), Error);
  CHECK_THROWS_WITH_AS(append(view({1, 1, 2, 2}), {}),
                       doctest::Contains("operand cache [B S Hkv D] is missing"), Error);
  CHECK_THROWS_WITH_AS(append(view({1, 1, 1, 2}), view({1, int64_t{1} << 32, 1, 2})),
                       doctest::Contains("needs S < 2147483648"), Error);
  CHECK_THROWS_WITH_AS(append(view({1, 1, 1, int64_t{1} << 31}), view({1, 4, 1, int64_t{1} << 31})),
                       doctest::Contains("Hkv*D < 2147483648"), Error);
  CHECK_THROWS_WITH_AS(view({1, 4, std::numeric_limits<int64_t>::max() / 2, 2}),
                       doctest::Contains("passes 2^63"), Error);
  CHECK_NOTHROW(append(view({1, 0, 2, 2}), view({1, 4, 2, 2})));  // no new rows: nothing to do

  const auto concat = [&](const View& old, const View& y) {
    cache_concat(device, {.old = old, .fresh = view({2, 1, 2}), .y = y});
  };
  View unbacked = view({2, 3, 2});
  unbacked.data = nullptr;  // a cache of 3 rows that is not there
  CHECK_THROWS_WITH_AS(concat(unbacked, view({2, 4, 2})),
                       doctest::Contains("old is f32 [2, 3, 2] but has no memory"), Error);
  CHECK_THROWS_WITH_AS(concat({}, view({2, 1, 2})), doctest::Contains("operand old [Hkv P D] is missing"),
                       Error);
  CHECK_THROWS_WITH_AS(concat(view({2, 3, 2}), view({2, 5, 2})), doctest::Contains("P+Q = 4"), Error);
  View empty = view({2, 0, 2});
  empty.data = nullptr;
  CHECK_NOTHROW(concat(empty, view({2, 1, 2})));
}

}  // namespace tang
