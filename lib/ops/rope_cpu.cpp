#include "lib/base/error.h"
#include "lib/device/simd.h"
#include "lib/ops/rope.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

/// One head. The simd pragmas promise that an element of y is at most its own x's memory.
template <class T>
inline void turn_head(const T* x, T* y, const float* cos, const float* sin, float direction, int64_t half,
                      int64_t dim) {
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float a = load(x, i), b = load(x, half + i), s = direction * sin[i];
    store(y, i, a * cos[i] - b * s);
    store(y, half + i, b * cos[i] + a * s);
  }
  if (x == y) return;
  for (int64_t d = 2 * half; d < dim; ++d) y[d] = x[d];
}

template <class T>
void turn(CpuDevice& device, const RopeForward& a, float direction) {
  const int64_t length = a.x.dim(1), heads = a.x.dim(2), dim = a.x.dim(3), half = a.cos.dim(1);
  const int64_t tokens = a.x.dim(0) * length;
  const uint32_t* start = a.start.present() ? a.start.as<uint32_t>() : nullptr;
  for (int64_t b = 0; start != nullptr && b < a.x.dim(0); ++b) {
    if (a.position + start[b] + length > a.cos.dim(0))
      fail_input("rope_forward: sequence {} ends at position {}, but the tables hold P = {}", b,
                 a.position + start[b] + length, a.cos.dim(0));
  }
  device.parallel_for(tokens, row_grain(heads * dim), [&](int64_t begin, int64_t end) {
    simd([&] {
      for (int64_t token = begin; token < end; ++token) {
        const int64_t b = token / length, t = token - b * length;
        const int64_t position = a.position + t + (start != nullptr ? start[b] : 0);
        const T* x = static_cast<const T*>(a.x.data) + b * a.x.stride(0) + t * a.x.stride(1);
        T* y = static_cast<T*>(a.y.data) + b * a.y.stride(0) + t * a.y.stride(1);
        const float* cos = static_cast<const float*>(a.cos.data) + position * a.cos.stride(0);
        const float* sin = static_cast<const float*>(a.sin.data) + position * a.sin.stride(0);
        for (int64_t h = 0; h < heads; ++h) {
          turn_head(x + h * a.x.stride(2), y + h * a.y.stride(2), cos, sin, direction, half, dim);
        }
      }
    });
  });
}

}  // namespace

void rope_forward_cpu(CpuDevice& device, const RopeForward& a) {
  a.x.dtype == Dtype::f32 ? turn<float>(device, a, 1.0f) : turn<bf16>(device, a, 1.0f);
}

void rope_backward_cpu(CpuDevice& device, const RopeBackward& a) {
  const RopeForward same = {.x = a.dy, .cos = a.cos, .sin = a.sin, .y = a.dx, .position = a.position};
  a.dy.dtype == Dtype::f32 ? turn<float>(device, same, -1.0f) : turn<bf16>(device, same, -1.0f);
}

}  // namespace tang
