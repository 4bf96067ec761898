#include <cmath>
#include <numbers>

#include "kernels/kv_attention.h"

#include "lib/base/error.h"
#include "lib/ops/kv_attention.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

constexpr int64_t merge_threads = 256;  // in kernels/kv_attention.cu

KvStrides strides_of(const View& view) { return {view.stride(0), view.stride(1), view.stride(2)}; }

KvAttentionParams params_of(const KvAttention& a, const KvSplits& plan) {
  const int64_t rows = a.q.dim(0) * a.q.dim(1) * a.q.dim(2), dim = a.q.dim(3);
  const double scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(dim));
  float* partial = a.workspace.as<float>();
  return {.q = a.q.data,
          .k = a.k.data,
          .v = a.v.data,
          .start = a.start.as<uint32_t>(),
          .o = a.o.data,
          .partial_o = partial,
          .partial_statistics = partial + rows * plan.splits * dim,
          .q_strides = strides_of(a.q),
          .k_strides = strides_of(a.k),
          .v_strides = strides_of(a.v),
          .o_strides = strides_of(a.o),
          .queries = static_cast<int32_t>(a.q.dim(1)),
          .capacity = static_cast<int32_t>(a.k.dim(1)),
          .heads = static_cast<int32_t>(a.q.dim(2)),
          .kv_heads = static_cast<int32_t>(a.k.dim(2)),
          .splits = static_cast<int32_t>(plan.splits),
          .split_keys = static_cast<int32_t>(plan.split_keys),
          .chunks = static_cast<int32_t>(plan.chunks),
          .scale_log2 = static_cast<float>(scale * std::numbers::log2e)};
}

}  // namespace

std::function<void()> kv_attention_cuda(CudaDevice& device, const KvAttention& a) {
  const int64_t batch = a.q.dim(0), heads = a.q.dim(2), kv_heads = a.k.dim(2), dim = a.q.dim(3);
  const KvSplits plan = split_keys(batch, a.q.dim(1), a.k.dim(1), heads, kv_heads, dim);
  const int64_t rows = batch * a.q.dim(1) * heads;
  if (plan.splits > 1 && a.workspace.size() < rows * plan.splits * (dim + 2))
    fail_check("kv_attention: the workspace holds {} floats, {} are needed", a.workspace.size(),
               rows * plan.splits * (dim + 2));
  KernelConstants constants = row_constants(
      a.q.dtype, vectorised({a.q, a.k, a.v}, {std::max<int64_t>(2, rows), dim}, group_width(a.q.dtype)));
  constants.emplace_back("TANG_HEAD_DIM", std::to_string(dim));
  constants.emplace_back("TANG_ROWS", std::to_string(plan.rows));
  constants.emplace_back("TANG_WARPS", std::to_string(plan.warps));
  const KvAttentionParams params = params_of(a, plan);
  const auto launch_of = [&](const char* entry, int64_t blocks, int64_t threads) {
    return device.bind(device.kernel({.source = "kv_attention.cu",
                                      .entry = entry,
                                      .constants = constants,
                                      .param_bytes = sizeof params}),
                       {.grid = {blocks}, .block = {threads}, .overlap_previous = true}, params);
  };
  auto partial = launch_of("kv_attention", batch * kv_heads * plan.chunks * plan.splits, 32 * plan.warps);
  if (plan.splits == 1) return partial;
  return [partial = std::move(partial), merge = launch_of("kv_attention_merge", rows, merge_threads)] {
    partial();
    merge();
  };
}

}  // namespace tang
