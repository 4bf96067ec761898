#include "kernels/adamw.h"

#include <algorithm>

#include "lib/ops/adamw.h"

namespace tang {

namespace {

template <class Params>
std::function<void()> launch(CudaDevice& device, const char* entry, Dtype dtype, int64_t blocks,
                             int64_t threads, const Params& params) {
  return device.bind(device.kernel({.source = "adamw.cu",
                                    .entry = entry,
                                    .constants = {{"TANG_T", kernel_type(dtype)}},
                                    .param_bytes = sizeof params}),
                     {.grid = {blocks}, .block = {threads}}, params);
}

/// Four elements of `array` may be read at once (true where it was left out).
bool allows_vectors(const View& array) {
  return reinterpret_cast<uintptr_t>(array.data) % static_cast<uintptr_t>(4 * size_of(array.dtype)) == 0;
}

}  // namespace

std::function<void()> global_norm_cuda(CudaDevice& device, const GlobalNorm& a) {
  const int64_t count = a.x.dim(0), a_block = norm_threads * 16;
  const int64_t blocks = std::clamp<int64_t>((count + a_block - 1) / a_block, 1, norm_blocks);
  const GlobalNormParams params{.x = a.x.as<float>(),
                                .partials = a.partials.as<float>(),
                                .norm = a.norm.as<float>(),
                                .count = count,
                                .blocks = static_cast<int32_t>(blocks),
                                .vectors = allows_vectors(a.x)};
  auto squares = launch(device, "global_norm_squares", Dtype::f32, blocks, norm_threads, params);
  auto fold = launch(device, "global_norm_fold", Dtype::f32, 1, norm_blocks, params);
  return [squares, fold] {
    squares();
    fold();
  };
}

std::function<void()> finite_guard_cuda(CudaDevice& device, const FiniteGuard& a) {
  const FiniteGuardParams params{
      .values = a.values.as<float>(), .halted = a.halted.as<uint32_t>(), .count = a.values.dim(0)};
  return launch(device, "finite_guard", Dtype::f32, 1, 32, params);
}

std::function<void()> adamw_cuda(CudaDevice& device, const AdamW& a) {
  constexpr int64_t threads = 256;
  const AdamWParams params{.grad = a.grad.as<float>(),
                           .norm = a.norm.as<float>(),
                           .control = a.control.as<float>(),
                           .halted = a.halted.as<uint32_t>(),
                           .master = a.master.as<float>(),
                           .m = a.m.as<float>(),
                           .v = a.v.as<float>(),
                           .weights = a.weights.data,
                           .count = a.master.dim(0),
                           .decayed = a.decayed,
                           .beta1 = a.beta1,
                           .beta2 = a.beta2,
                           .eps = a.eps,
                           .weight_decay = a.weight_decay,
                           .clip_norm = a.clip_norm,
                           .vectors = allows_vectors(a.grad) && allows_vectors(a.master) &&
                                      allows_vectors(a.m) && allows_vectors(a.v) &&
                                      allows_vectors(a.weights)};
  const int64_t blocks = (params.count + threads * 4 - 1) / (threads * 4);
  return launch(device, "adamw", a.weights.dtype, blocks, threads, params);
}

}  // namespace tang
