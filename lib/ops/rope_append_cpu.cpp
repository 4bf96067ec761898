#include "lib/base/error.h"
#include "lib/device/simd.h"
#include "lib/ops/rope_append.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

template <class T>
T* head_of(const View& view, int64_t b, int64_t row, int64_t head) {
  return static_cast<T*>(view.data) + b * view.stride(0) + row * view.stride(1) + head * view.stride(2);
}

/// The simd pragma promises that an element of y is at most its own x's memory.
template <class T>
inline void turn(const T* x, T* y, const float* cos, const float* sin, int64_t half) {
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float a = load(x, i), b = load(x, half + i);
    store(y, i, a * cos[i] - b * sin[i]);
    store(y, half + i, b * cos[i] + a * sin[i]);
  }
}

template <class T>
void append(CpuDevice& device, const RopeAppend& a) {
  const int64_t rows = a.q.dim(1), heads = a.q.dim(2), kv_heads = a.k.dim(2), dim = a.q.dim(3);
  const uint32_t* start = a.start.as<uint32_t>();
  device.parallel_for(
      a.q.dim(0) * rows, row_grain((heads + kv_heads) * dim), [&](int64_t begin, int64_t end) {
        simd([&] {
          for (int64_t n = begin; n < end; ++n) {
            const int64_t b = n / rows, i = n - b * rows, position = start[b] + i;
            const float* cos = a.cos.as<float>() + position * a.cos.stride(0);
            const float* sin = a.sin.as<float>() + position * a.sin.stride(0);
            for (int64_t h = 0; h < heads; ++h)
              turn(head_of<T>(a.q, b, i, h), head_of<T>(a.y, b, i, h), cos, sin, dim / 2);
            for (int64_t h = 0; h < kv_heads; ++h) {
              turn(head_of<T>(a.k, b, i, h), head_of<T>(a.k_cache, b, position, h), cos, sin, dim / 2);
              const T* v = head_of<T>(a.v, b, i, h);
              std::copy(v, v + dim, head_of<T>(a.v_cache, b, position, h));
            }
          }
        });
      });
}

}  // namespace

void rope_append_cpu(CpuDevice& device, const RopeAppend& a) {
  for (int64_t b = 0; b < a.start.dim(0); ++b) {
    const int64_t start = a.start.as<uint32_t>()[b];
    if (start + a.q.dim(1) > a.k_cache.dim(1)) {
      fail_input("rope_append: sequence {} has Q = {} rows at position {}, but the cache holds S = {}", b,
                 a.q.dim(1), start, a.k_cache.dim(1));
    }
  }
  a.q.dtype == Dtype::f32 ? append<float>(device, a) : append<bf16>(device, a);
}

}  // namespace tang
