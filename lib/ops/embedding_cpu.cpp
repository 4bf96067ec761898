#include <cstring>
#include <limits>

#include "lib/device/simd.h"
#include "lib/ops/embedding.h"

namespace tang {

namespace {

template <class T>
void forward_rows(const EmbeddingForward& a, int64_t begin, int64_t end) {
  const int64_t vocab = a.table.dim(0), dim = a.table.dim(1);
  const uint32_t* ids = a.ids.as<uint32_t>();
  for (int64_t n = begin; n < end; ++n) {
    T* y = a.y.as<T>() + n * a.y.stride(0);
    if (ids[n] < vocab) {
      std::memcpy(y, a.table.as<T>() + ids[n] * a.table.stride(0), static_cast<size_t>(dim) * sizeof(T));
    } else {
      std::fill(y, y + dim, T(std::numeric_limits<float>::quiet_NaN()));
    }
  }
}

/// Columns [begin, end): every thread has its own, and walks the rows in order of position.
template <class T>
void backward_columns(const EmbeddingBackward& a, int64_t begin, int64_t end) {
  const int64_t rows = a.dy.dim(0), vocab = a.d_table.dim(0);
  const uint32_t* ids = a.ids.as<uint32_t>();
  float* d_table = a.d_table.as<float>();
  if (!a.accumulate) {
    for (int64_t v = 0; v < vocab; ++v) {
      std::fill(d_table + v * a.d_table.stride(0) + begin, d_table + v * a.d_table.stride(0) + end, 0.0f);
    }
  }
  for (int64_t n = 0; n < rows; ++n) {
    if (ids[n] >= vocab) continue;
    const T* dy = a.dy.as<T>() + n * a.dy.stride(0);
    float* sum = d_table + ids[n] * a.d_table.stride(0);
    for (int64_t c = begin; c < end; ++c) sum[c] += load(dy, c);
  }
}

}  // namespace

void embedding_forward_cpu(CpuDevice& device, const EmbeddingForward& a) {
  device.parallel_for(a.y.dim(0), 64, [&](int64_t begin, int64_t end) {
    a.y.dtype == Dtype::f32 ? forward_rows<float>(a, begin, end) : forward_rows<bf16>(a, begin, end);
  });
}

void embedding_backward_cpu(CpuDevice& device, const EmbeddingBackward& a) {
  device.parallel_for(a.dy.dim(1), 64, [&](int64_t begin, int64_t end) {
    simd([&] {
      a.dy.dtype == Dtype::f32 ? backward_columns<float>(a, begin, end)
                               : backward_columns<bf16>(a, begin, end);
    });
  });
}

}  // namespace tang
