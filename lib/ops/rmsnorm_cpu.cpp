#include "lib/device/simd.h"
#include "lib/ops/rmsnorm.h"

namespace tang {

namespace {

constexpr int64_t row_grain = 16;

template <class T>
void forward_rows(const RmsNormForward& a, int64_t begin, int64_t end) {
  const int64_t dim = a.x.dim(1);
  const T* w = a.w.as<T>();
  float* rstd = a.rstd.as<float>();
  for (int64_t n = begin; n < end; ++n) {
    const T* x = a.x.as<T>() + n * a.x.stride(0);
    T* y = a.y.as<T>() + n * a.y.stride(0);
    if (a.residual.present()) {
      const T* residual = a.residual.as<T>() + n * a.residual.stride(0);
      T* sum = a.sum.as<T>() + n * a.sum.stride(0);
      for (int64_t c = 0; c < dim; ++c) store(sum, c, load(x, c) + load(residual, c));
      x = sum;
    }
    const float squares = sum_lanes(dim, [&](int64_t c) { return load(x, c) * load(x, c); });
    const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(dim) + a.eps);
    rstd[n] = inverse;
    for (int64_t c = 0; c < dim; ++c) store(y, c, load(x, c) * inverse * load(w, c));
  }
}

/// Rows [begin, end) into dx; their share of dw into `partial`.
template <class T>
void backward_rows(const RmsNormBackward& a, int64_t begin, int64_t end, float* partial) {
  const int64_t dim = a.x.dim(1);
  const T* w = a.w.as<T>();
  std::fill(partial, partial + dim, 0.0f);
  for (int64_t n = begin; n < end; ++n) {
    const T* x = a.x.as<T>() + n * a.x.stride(0);
    const T* dy = a.dy.as<T>() + n * a.dy.stride(0);
    T* dx = a.dx.as<T>() + n * a.dx.stride(0);
    const float inverse = a.rstd.as<float>()[n];
    const float mean =
        sum_lanes(dim, [&](int64_t c) { return load(w, c) * load(dy, c) * (load(x, c) * inverse); }) /
        static_cast<float>(dim);
    if (a.d_sum.present()) {
      const T* d_sum = a.d_sum.as<T>() + n * a.d_sum.stride(0);
      for (int64_t c = 0; c < dim; ++c) {
        const float unit = load(x, c) * inverse;
        store(dx, c, inverse * (load(w, c) * load(dy, c) - unit * mean) + load(d_sum, c));
      }
    } else {
      for (int64_t c = 0; c < dim; ++c) {
        const float unit = load(x, c) * inverse;
        store(dx, c, inverse * (load(w, c) * load(dy, c) - unit * mean));
      }
    }
    for (int64_t c = 0; c < dim; ++c) partial[c] += load(dy, c) * (load(x, c) * inverse);
  }
}

template <class T>
void backward(CpuDevice& device, const RmsNormBackward& a) {
  const int64_t rows = a.x.dim(0), dim = a.x.dim(1);
  const int64_t parts =
      std::min<int64_t>({a.partials.dim(0), device.threads(), (rows + row_grain - 1) / row_grain});
  float* partials = a.partials.as<float>();
  device.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    simd([&] {
      for (int64_t part = begin; part < end; ++part) {
        backward_rows<T>(a, rows * part / parts, rows * (part + 1) / parts, partials + part * dim);
      }
    });
  });
  float* dw = a.dw.as<float>();
  for (int64_t c = 0; c < dim; ++c) {
    float total = 0;
    for (int64_t part = 0; part < parts; ++part) total += partials[part * dim + c];
    dw[c] = a.accumulate ? dw[c] + total : total;
  }
}

}  // namespace

void rmsnorm_forward_cpu(CpuDevice& device, const RmsNormForward& a) {
  device.parallel_for(a.x.dim(0), row_grain, [&](int64_t begin, int64_t end) {
    simd([&] {
      a.x.dtype == Dtype::f32 ? forward_rows<float>(a, begin, end) : forward_rows<bf16>(a, begin, end);
    });
  });
}

void rmsnorm_backward_cpu(CpuDevice& device, const RmsNormBackward& a) {
  a.x.dtype == Dtype::f32 ? backward<float>(device, a) : backward<bf16>(device, a);
}

}  // namespace tang
