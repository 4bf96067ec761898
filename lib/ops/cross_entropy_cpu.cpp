#include <limits>

#include "lib/device/simd.h"
#include "lib/ops/cross_entropy.h"

namespace tang {

namespace {

template <class T>
void run_row(const CrossEntropy& a, int64_t n) {
  const int64_t width = a.logits.dim(1), vocab = valid_columns(a);
  const T* logits = a.logits.as<T>() + n * a.logits.stride(0);
  T* gradient = a.d_logits.present() ? a.d_logits.as<T>() + n * a.d_logits.stride(0) : nullptr;
  const int64_t target = a.targets.as<uint32_t>()[n];
  float& loss = a.losses.as<float>()[n];
  if (target == a.pad_id) {
    loss = 0;
    if (gradient != nullptr) std::fill(gradient, gradient + width, T());
    return;
  }
  const float scale = a.scale.as<float>()[0];
  const float top =
      max_lanes(vocab, -std::numeric_limits<float>::infinity(), [&](int64_t c) { return load(logits, c); });
  const float sum = sum_lanes(vocab, [&](int64_t c) { return fast_exp(load(logits, c) - top); });
  const bool valid = target < vocab;
  loss = valid ? std::log(sum) - (load(logits, target) - top) : std::numeric_limits<float>::quiet_NaN();
  if (gradient == nullptr) return;
  // The target's own value, before the logits may be overwritten.
  const float factor = scale / sum;
  const float at_target = valid ? fast_exp(load(logits, target) - top) * factor - scale : 0.0f;
  for (int64_t c = 0; c < vocab; ++c) store(gradient, c, fast_exp(load(logits, c) - top) * factor);
  if (valid) store(gradient, target, at_target);
  std::fill(gradient + vocab, gradient + width, T());
}

template <class T>
void run(CpuDevice& device, const CrossEntropy& a) {
  device.parallel_for(a.logits.dim(0), 1, [&](int64_t begin, int64_t end) {
    simd([&] {
      for (int64_t n = begin; n < end; ++n) run_row<T>(a, n);
    });
  });
}

}  // namespace

void cross_entropy_cpu(CpuDevice& device, const CrossEntropy& a) {
  a.logits.dtype == Dtype::f32 ? run<float>(device, a) : run<bf16>(device, a);
}

}  // namespace tang
