#include <cmath>

#include "lib/device/simd.h"
#include "lib/ops/matvec.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

/// `value` as it would have been stored.
template <class T>
inline float stored(float value) {
  T place;
  store(&place, 0, value);
  return load(&place, 0);
}

/// Row b of x, normalised and gated, as f32.
template <class T>
void fetch_row(const Matvec& a, int64_t b, float* row) {
  const int64_t depth = a.x.dim(1);
  const T* x = a.x.as<T>() + b * a.x.stride(0);
  for (int64_t k = 0; k < depth; ++k) row[k] = load(x, k);
  if (a.norm.present()) {
    const T* w = a.norm.as<T>();
    const float squares = sum_lanes(depth, [&](int64_t k) { return row[k] * row[k]; });
    const float rstd = 1.0f / std::sqrt(squares / static_cast<float>(depth) + a.eps);
    for (int64_t k = 0; k < depth; ++k) row[k] = stored<T>(row[k] * rstd * load(w, k));
  }
  if (a.gate.present()) {
    const T* gate = a.gate.as<T>() + b * a.gate.stride(0);
    for (int64_t k = 0; k < depth; ++k) {
      const float g = load(gate, k);
      row[k] = stored<T>(row[k] * (g * (1.0f / (1.0f + fast_exp(-g)))));
    }
  }
}

template <class T, class Out>
void multiply(CpuDevice& device, const Matvec& a) {
  static thread_local std::vector<float> memory;  // [B, K]; grows to the largest one asked for
  const int64_t batch = a.x.dim(0), depth = a.x.dim(1);
  if (static_cast<int64_t>(memory.size()) < batch * depth) memory.resize(static_cast<size_t>(batch * depth));
  float* rows = memory.data();
  simd([&] {
    for (int64_t b = 0; b < batch; ++b) fetch_row<T>(a, b, rows + b * depth);
  });
  device.parallel_for(a.w.dim(0), row_grain(batch * depth), [&, rows](int64_t begin, int64_t end) {
    simd([&] {
      for (int64_t n = begin; n < end; ++n) {
        const T* w = a.w.as<T>() + n * a.w.stride(0);
        for (int64_t b = 0; b < batch; ++b) {
          const float* x = rows + b * depth;
          float sum = sum_lanes(depth, [&](int64_t k) { return x[k] * load(w, k); });
          if (a.residual.present())
            sum = stored<Out>(sum) + load(a.residual.as<T>() + b * a.residual.stride(0), n);
          store(a.y.as<Out>() + b * a.y.stride(0), n, sum);
        }
      }
    });
  });
}

}  // namespace

void matvec_cpu(CpuDevice& device, const Matvec& a) {
  if (a.x.dtype == Dtype::f32) return multiply<float, float>(device, a);
  return a.y.dtype == Dtype::f32 ? multiply<bf16, float>(device, a) : multiply<bf16, bf16>(device, a);
}

}  // namespace tang
