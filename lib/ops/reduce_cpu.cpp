#include "lib/device/simd.h"
#include "lib/ops/reduce.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

// Short runs are summed in f32, the runs in f64: as fast, and long sums stay accurate.
constexpr int64_t run = 1024;          // elements of a contiguous row
constexpr int64_t run_rows = 128;      // entries of R
constexpr int64_t block_columns = 64;  // columns summed together

template <class Y>
inline void write_sum(Y* y, int64_t i, double total, bool accumulate) {
  store(y, i, static_cast<float>(accumulate ? static_cast<double>(load(y, i)) + total : total));
}

/// One row of entries `stride` apart.
template <class X>
inline double sum_row(const X* x, int64_t count, int64_t stride) {
  double total = 0;
  for (int64_t first = 0; first < count; first += run) {
    const int64_t length = std::min(run, count - first);
    const X* part = x + first * stride;
    total += stride == 1 ? sum_lanes(length, [&](int64_t i) { return load(part, i); })
                         : sum_lanes(length, [&](int64_t i) { return load(part, i * stride); });
  }
  return total;
}

/// Columns [begin, end), at most block_columns of them, of one outer entry.
template <class X, class Y>
inline void sum_columns(const X* x, Y* y, int64_t rows, int64_t stride, int64_t begin, int64_t end,
                        bool accumulate) {
  double total[block_columns] = {};
  for (int64_t first = 0; first < rows; first += run_rows) {
    float part[block_columns] = {};
    for (int64_t r = first; r < std::min(rows, first + run_rows); ++r) {
      for (int64_t c = 0; c < end - begin; ++c) part[c] += load(x + r * stride, begin + c);
    }
    for (int64_t c = 0; c < end - begin; ++c) total[c] += static_cast<double>(part[c]);
  }
  for (int64_t c = 0; c < end - begin; ++c) write_sum(y, begin + c, total[c], accumulate);
}

template <class X, class Y>
void reduce(CpuDevice& device, const ReduceSum& a) {
  const int64_t reduced = a.x.dim(1), inner = a.x.dim(2);
  const int64_t blocks = (inner + block_columns - 1) / block_columns;
  const int64_t cost = reduced * std::min(inner, block_columns);
  device.parallel_for(a.x.dim(0) * blocks, row_grain(cost), [&](int64_t first, int64_t last) {
    simd([&] {
      for (int64_t task = first; task < last; ++task) {
        const int64_t outer = task / blocks, begin = task % blocks * block_columns;
        const X* x = static_cast<const X*>(a.x.data) + outer * a.x.stride(0);
        Y* y = static_cast<Y*>(a.y.data) + outer * a.y.stride(0);
        if (inner == 1) {
          write_sum(y, 0, sum_row(x, reduced, a.x.stride(1)), a.accumulate);
        } else {
          sum_columns(x, y, reduced, a.x.stride(1), begin, std::min(inner, begin + block_columns),
                      a.accumulate);
        }
      }
    });
  });
}

}  // namespace

void reduce_sum_cpu(CpuDevice& device, const ReduceSum& a) {
  if (a.x.dtype == Dtype::f32) return reduce<float, float>(device, a);
  a.y.dtype == Dtype::f32 ? reduce<bf16, float>(device, a) : reduce<bf16, bf16>(device, a);
}

}  // namespace tang
