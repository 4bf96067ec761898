#include "kernels/rope_append.h"

#include "lib/ops/rope_append.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

RopeStrides strides_of(const View& view) { return {view.stride(0), view.stride(1), view.stride(2)}; }

}  // namespace

std::function<void()> rope_append_cuda(CudaDevice& device, const RopeAppend& a) {
  constexpr int64_t most_threads = 128;
  const int64_t half = a.q.dim(3) / 2, items = (a.q.dim(2) + 2 * a.k.dim(2)) * half;
  const int64_t threads = std::min(most_threads, (items + 31) / 32 * 32);
  const int64_t tiles = (items + threads - 1) / threads;
  const RopeAppendParams params{.q = a.q.data,
                                .k = a.k.data,
                                .v = a.v.data,
                                .cos = a.cos.as<float>(),
                                .sin = a.sin.as<float>(),
                                .start = a.start.as<uint32_t>(),
                                .y = a.y.data,
                                .k_cache = a.k_cache.data,
                                .v_cache = a.v_cache.data,
                                .q_strides = strides_of(a.q),
                                .k_strides = strides_of(a.k),
                                .v_strides = strides_of(a.v),
                                .y_strides = strides_of(a.y),
                                .k_cache_strides = strides_of(a.k_cache),
                                .v_cache_strides = strides_of(a.v_cache),
                                .cos_row = a.cos.stride(0),
                                .sin_row = a.sin.stride(0),
                                .rows = static_cast<int32_t>(a.q.dim(1)),
                                .capacity = static_cast<int32_t>(a.k_cache.dim(1)),
                                .heads = static_cast<int32_t>(a.q.dim(2)),
                                .kv_heads = static_cast<int32_t>(a.k.dim(2)),
                                .half = static_cast<int32_t>(half),
                                .tiles = static_cast<int32_t>(tiles)};
  return device.bind(
      device.kernel({.source = "rope_append.cu",
                     .entry = "rope_append",
                     .constants = {{"TANG_T", kernel_type(a.q.dtype)}},
                     .param_bytes = sizeof params}),
      {.grid = {a.q.dim(0) * a.q.dim(1) * tiles}, .block = {threads}, .overlap_previous = true}, params);
}

}  // namespace tang
