// AdamW over a flat arena, the global norm before it, and the guard that stops it. The sums have a fixed
// shape (it depends on the length alone), so equal gradients give equal bits.
#include "adamw.h"

#include "common.cuh"

namespace {

__device__ bool is_finite(float value) { return fabsf(value) <= 3.402823466e38f; }

struct Step {
  float beta1, beta2, eps, weight_decay, rate, factor, inverse1, inverse2;

  __device__ explicit Step(const AdamWParams& p, float norm)
      : beta1(p.beta1), beta2(p.beta2), eps(p.eps), weight_decay(p.weight_decay), rate(p.control[0]) {
    factor = p.clip_norm > 0 ? fminf(1.0f, p.clip_norm / norm) : 1.0f;
    inverse1 = 1.0f / p.control[1];
    inverse2 = 1.0f / sqrtf(p.control[2]);
  }

  __device__ void update(float grad, float& master, float& m, float& v, bool decays) const {
    const float g = grad * factor;
    m = beta1 * m + (1.0f - beta1) * g;
    v = beta2 * v + (1.0f - beta2) * g * g;
    const float change = m * inverse1 / (sqrtf(v) * inverse2 + eps);
    master -= rate * (change + (decays ? weight_decay * master : 0.0f));
  }
};

/// Four elements at once: 16 bytes of f32, 8 of bf16.
template <class T>
__device__ void store_four(T* target, const float (&values)[4]) {
  if constexpr (sizeof(T) == 4) {
    store_vector(target, values);
  } else {
    *reinterpret_cast<uint2*>(target) =
        make_uint2(pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3]));
  }
}

}  // namespace

/// Four elements a thread.
TANG_KERNEL adamw(const AdamWParams p) {
  const float norm = *p.norm;
  if (*p.halted != 0 || !is_finite(norm)) return;
  const Step step(p, norm);
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  data_t* weights = static_cast<data_t*>(p.weights);
  if (p.vectors != 0 && first + 4 <= p.count) {
    float grad[4], master[4], m[4], v[4];
    load_vector(grad, p.grad + first);
    load_vector(m, p.m + first);
    load_vector(v, p.v + first);
    load_vector(master, p.master + first);
#pragma unroll
    for (int j = 0; j < 4; ++j) step.update(grad[j], master[j], m[j], v[j], first + j < p.decayed);
    store_vector(p.m + first, m);
    store_vector(p.v + first, v);
    store_vector(p.master + first, master);
    if (weights != nullptr) store_four(weights + first, master);
    return;
  }
  for (int64_t i = first; i < first + 4 && i < p.count; ++i) {
    float master = p.master[i], m = p.m[i], v = p.v[i];
    step.update(p.grad[i], master, m, v, i < p.decayed);
    p.m[i] = m;
    p.v[i] = v;
    p.master[i] = master;
    if (weights != nullptr) weights[i] = from_float<data_t>(master);
  }
}

TANG_KERNEL global_norm_squares(const GlobalNormParams p) {
  constexpr int unroll = 4;
  __shared__ float scratch[32];
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * norm_threads + threadIdx.x;
  const int64_t step = static_cast<int64_t>(p.blocks) * norm_threads;
  const int64_t vectors = p.vectors != 0 ? p.count / 4 : 0;
  const float4* x = reinterpret_cast<const float4*>(p.x);
  float sums[unroll] = {};
  const auto add = [](float& sum, const float4& v) {
    sum += v.x * v.x;
    sum += v.y * v.y;
    sum += v.z * v.z;
    sum += v.w * v.w;
  };
  int64_t i = thread;
  for (; i + (unroll - 1) * step < vectors; i += unroll * step) {
    float4 loaded[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) loaded[u] = x[i + u * step];
#pragma unroll
    for (int u = 0; u < unroll; ++u) add(sums[u], loaded[u]);
  }
  for (; i < vectors; i += step) add(sums[0], x[i]);
  for (int64_t j = vectors * 4 + thread; j < p.count; j += step) sums[1] += p.x[j] * p.x[j];
  const float total = block_sum((sums[0] + sums[1]) + (sums[2] + sums[3]), scratch);
  if (threadIdx.x == 0) p.partials[blockIdx.x] = total;
}

/// One block of norm_blocks threads.
TANG_KERNEL global_norm_fold(const GlobalNormParams p) {
  __shared__ float scratch[32];
  const float total =
      block_sum(threadIdx.x < static_cast<unsigned>(p.blocks) ? p.partials[threadIdx.x] : 0.0f, scratch);
  if (threadIdx.x == 0) *p.norm = sqrtf(total);
}

/// One block. The flag is raised, never lowered.
TANG_KERNEL finite_guard(const FiniteGuardParams p) {
  for (int64_t i = threadIdx.x; i < p.count; i += blockDim.x) {
    if (!is_finite(p.values[i])) *p.halted = 1;  // every writer writes the same
  }
}
