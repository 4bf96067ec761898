#include "kernels/cross_entropy.h"

#include <algorithm>

#include "lib/ops/cross_entropy.h"

namespace tang {

namespace {

constexpr int64_t vector_bytes = 16;
constexpr int64_t most_threads = 512;  // in the kernel

/// Shared bytes a row's cache may take so that two blocks share a multiprocessor: one loads while the other
/// computes. The hardware keeps 1 KiB of each block's share, and reductions take 128 bytes.
int64_t cache_limit(const DeviceCaps& caps) {
  const int64_t per_multiprocessor = caps.shared_bytes_per_block + 1024;
  return (per_multiprocessor / 2 - 1024 - 128) / vector_bytes * vector_bytes;
}

}  // namespace

std::function<void()> cross_entropy_cuda(CudaDevice& device, const CrossEntropy& a) {
  const int64_t vocab = valid_columns(a);
  const int64_t vectors = (vocab * size_of(a.logits.dtype) + vector_bytes - 1) / vector_bytes;
  const int64_t cache_bytes = std::min(vectors * vector_bytes, cache_limit(device.caps()));
  const CrossEntropyParams params{.logits = a.logits.data,
                                  .targets = a.targets.as<uint32_t>(),
                                  .scale = a.scale.as<float>(),
                                  .losses = a.losses.as<float>(),
                                  .d_logits = a.d_logits.data,
                                  .logits_row = a.logits.stride(0),
                                  .d_logits_row = a.d_logits.strides[0],
                                  .pad_id = a.pad_id,
                                  .width = static_cast<int32_t>(a.logits.dim(1)),
                                  .vocab = static_cast<int32_t>(vocab),
                                  .cached_vectors = static_cast<int32_t>(cache_bytes / vector_bytes)};
  const Kernel kernel = device.kernel({.source = "cross_entropy.cu",
                                       .entry = "cross_entropy",
                                       .constants = {{"TANG_T", kernel_type(a.logits.dtype)}},
                                       .param_bytes = sizeof params,
                                       .shared_bytes = cache_limit(device.caps())});
  const int64_t threads = std::clamp<int64_t>((vectors + 31) / 32 * 32, 32, most_threads);
  return device.bind(kernel, {.grid = {a.logits.dim(0)}, .block = {threads}, .shared_bytes = cache_bytes},
                     params);
}

}  // namespace tang
