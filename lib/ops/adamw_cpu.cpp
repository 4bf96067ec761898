#include <cmath>

#include "lib/device/simd.h"
#include "lib/ops/adamw.h"

namespace tang {

namespace {

constexpr int64_t block = 4096;  // elements that stay in the first cache between passes

/// The step's scalars as the device sees them.
struct Step {
  float beta1, beta2, eps, rate, factor, inverse1, inverse2;

  explicit Step(const AdamW& a) : beta1(a.beta1), beta2(a.beta2), eps(a.eps), rate(a.control.as<float>()[0]) {
    const float* control = a.control.as<float>();
    factor = a.clip_norm > 0 ? std::min(1.0f, a.clip_norm / a.norm.as<float>()[0]) : 1.0f;
    inverse1 = 1.0f / control[1];
    inverse2 = 1.0f / std::sqrt(control[2]);
  }

  /// `weight_decay` 0 for what is not decayed.
  void update(int64_t count, float weight_decay, const float* __restrict grad, float* __restrict master,
              float* __restrict m, float* __restrict v) const {
    const Step s = *this;  // a copy, which the stores below cannot alias
    for (int64_t i = 0; i < count; ++i) {
      const float g = grad[i] * s.factor;
      m[i] = s.beta1 * m[i] + (1.0f - s.beta1) * g;
      v[i] = s.beta2 * v[i] + (1.0f - s.beta2) * g * g;
      const float change = m[i] * s.inverse1 / (std::sqrt(v[i]) * s.inverse2 + s.eps);
      master[i] -= s.rate * (change + weight_decay * master[i]);
    }
  }
};

template <class T>
void round_to(T* weights, const float* master, int64_t count) {
  for (int64_t i = 0; i < count; ++i) store(weights, i, master[i]);
}

void update_range(const AdamW& a, const Step& step, int64_t begin, int64_t end, float weight_decay) {
  for (int64_t i = begin; i < end; i += block) {
    const int64_t count = std::min(block, end - i);
    step.update(count, weight_decay, a.grad.as<float>() + i, a.master.as<float>() + i, a.m.as<float>() + i,
                a.v.as<float>() + i);
    if (!a.weights.present()) continue;
    if (a.weights.dtype == Dtype::bf16) {
      round_to(a.weights.as<bf16>() + i, a.master.as<float>() + i, count);
    } else {
      round_to(a.weights.as<float>() + i, a.master.as<float>() + i, count);
    }
  }
}

/// Sum of squares: f32 within a block, f64 across them.
double sum_squares(const float* x, int64_t count) {
  double total = 0;
  for (int64_t i = 0; i < count; i += block) {
    total += sum_lanes(std::min(block, count - i), [&](int64_t j) { return x[i + j] * x[i + j]; });
  }
  return total;
}

}  // namespace

void adamw_cpu(CpuDevice& device, const AdamW& a) {
  if (a.halted.as<uint32_t>()[0] != 0 || !std::isfinite(a.norm.as<float>()[0])) return;
  const Step step(a);
  device.parallel_for(a.master.dim(0), block, [&](int64_t begin, int64_t end) {
    const int64_t border = std::clamp(a.decayed, begin, end);
    simd([&] {
      update_range(a, step, begin, border, a.weight_decay);
      update_range(a, step, border, end, 0.0f);
    });
  });
}

void global_norm_cpu(CpuDevice& device, const GlobalNorm& a) {
  const int64_t count = a.x.dim(0);
  // The cut depends on the length alone, so the sum does not depend on the thread count.
  const int64_t most = a.partials.dim(0), length = std::max(block, (count + most - 1) / most);
  const int64_t parts = (count + length - 1) / length;
  const float* x = a.x.as<float>();
  float* partials = a.partials.as<float>();
  device.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    simd([&] {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t first = part * length;
        partials[part] = static_cast<float>(sum_squares(x + first, std::min(length, count - first)));
      }
    });
  });
  double total = 0;
  for (int64_t part = 0; part < parts; ++part) total += partials[part];
  a.norm.as<float>()[0] = static_cast<float>(std::sqrt(total));
}

void finite_guard_cpu(CpuDevice&, const FiniteGuard& a) {
  const float* values = a.values.as<float>();
  for (int64_t i = 0; i < a.values.dim(0); ++i) {
    if (!std::isfinite(values[i])) a.halted.as<uint32_t>()[0] = 1;
  }
}

}  // namespace tang
