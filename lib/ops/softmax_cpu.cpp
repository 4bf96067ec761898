#include <limits>

#include "lib/device/simd.h"
#include "lib/ops/rows.h"
#include "lib/ops/softmax.h"

namespace tang {

namespace {

/// `row` holds one row of exponentials in f32: bf16 would round them twice.
template <class T>
void forward_row(const T* x, T* y, float* row, int64_t visible, int64_t columns) {
  const float largest =
      max_lanes(visible, -std::numeric_limits<float>::infinity(), [&](int64_t c) { return load(x, c); });
  for (int64_t c = 0; c < visible; ++c) row[c] = fast_exp(load(x, c) - largest);
  const float scale = 1.0f / sum_lanes(visible, [&](int64_t c) { return row[c]; });
  for (int64_t c = 0; c < visible; ++c) store(y, c, row[c] * scale);
  std::fill(y + visible, y + columns, T());
}

template <class T>
void forward(CpuDevice& device, const SoftmaxForward& a) {
  const int64_t columns = a.x.dim(1);
  device.parallel_for(a.x.dim(0), row_grain(4 * columns), [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(columns));
    simd([&] {
      for (int64_t n = begin; n < end; ++n) {
        const int64_t visible = a.causal ? std::min(columns, n + 1) : columns;
        forward_row(static_cast<const T*>(a.x.data) + n * a.x.stride(0),
                    static_cast<T*>(a.y.data) + n * a.y.stride(0), row.data(), visible, columns);
      }
    });
  });
}

template <class T>
void backward(CpuDevice& device, const SoftmaxBackward& a) {
  const int64_t columns = a.y.dim(1);
  device.parallel_for(a.y.dim(0), row_grain(columns), [&](int64_t begin, int64_t end) {
    simd([&] {
      for (int64_t n = begin; n < end; ++n) {
        const T* dy = static_cast<const T*>(a.dy.data) + n * a.dy.stride(0);
        const T* y = static_cast<const T*>(a.y.data) + n * a.y.stride(0);
        T* dx = static_cast<T*>(a.dx.data) + n * a.dx.stride(0);
        const float dot = sum_lanes(columns, [&](int64_t c) { return load(y, c) * load(dy, c); });
#pragma omp simd  // an element of dx is at most its own dy's memory
        for (int64_t c = 0; c < columns; ++c) store(dx, c, load(y, c) * (load(dy, c) - dot));
      }
    });
  });
}

}  // namespace

void softmax_forward_cpu(CpuDevice& device, const SoftmaxForward& a) {
  a.x.dtype == Dtype::f32 ? forward<float>(device, a) : forward<bf16>(device, a);
}

void softmax_backward_cpu(CpuDevice& device, const SoftmaxBackward& a) {
  a.y.dtype == Dtype::f32 ? backward<float>(device, a) : backward<bf16>(device, a);
}

}  // namespace tang
