// References of the ops that only move elements.
#include <cmath>

#include "lib/ops/gather_heads.h"

namespace tang {

namespace {

void move_to(RefOutput& y, int64_t at, double value) {
  y.value[at] = value;
  y.magnitude[at] = std::abs(value);
}

}  // namespace

void gather_heads_reference(Ref& r) {
  const int64_t rows = r["N"], width = r["W"], heads = r["H"], dim = r["D"];
  const auto offset = static_cast<int64_t>(r.scalar("comp_offset"));
  const auto stride = r.scalar("head_stride") != 0 ? static_cast<int64_t>(r.scalar("head_stride")) : dim;
  RefOutput& y = r.out("y");
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t d = 0; d < dim; ++d)
        move_to(y, (h * rows + n) * dim + d, r.in("x")[n * width + offset + h * stride + d]);
    }
  }
}

void cache_append_reference(Ref& r) {
  const int64_t capacity = r["S"], length = r["Q"], row = r["Hkv"] * r["D"];
  RefOutput& cache = r.out("cache");
  for (size_t i = 0; i < cache.value.size(); ++i) move_to(cache, static_cast<int64_t>(i), r.in("cache")[i]);
  for (int64_t b = 0; b < r["B"]; ++b) {
    const auto start = static_cast<int64_t>(r.in("start")[b]);
    for (int64_t i = 0; i < length * row; ++i)
      move_to(cache, (b * capacity + start) * row + i, r.in("x")[b * length * row + i]);
  }
}

void cache_concat_reference(Ref& r) {
  const int64_t before = r["P"] * r["D"], added = r["Q"] * r["D"];
  RefOutput& y = r.out("y");
  for (int64_t h = 0; h < r["Hkv"]; ++h) {
    int64_t next = h * (before + added);
    for (int64_t i = 0; i < before; ++i) move_to(y, next++, r.in("old")[h * before + i]);
    for (int64_t i = 0; i < added; ++i) move_to(y, next++, r.in("fresh")[h * added + i]);
  }
}

}  // namespace tang
