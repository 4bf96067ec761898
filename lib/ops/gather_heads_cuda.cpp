#include "kernels/gather_heads.h"

#include "lib/ops/gather_heads.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

constexpr int64_t block_threads = 256;

HeadStrides strides_of(const View& view) { return {view.stride(0), view.stride(1), view.stride(2)}; }

}  // namespace

std::function<void()> copy_heads(CudaDevice& device, const HeadCopy& c) {
  const int64_t tokens = c.x.dim(0) * c.x.dim(1), heads = c.x.dim(2), dim = c.x.dim(3);
  const int64_t width = group_width(c.x.dtype);
  const bool vector = vectorised({c.x, c.y}, {std::max<int64_t>(2, tokens * heads), dim}, width);
  const int64_t pieces = vector ? dim / width : dim, per_token = pieces * heads;
  if (tokens * per_token == 0) return [] {};
  const int64_t tokens_per_block = std::max<int64_t>(1, block_threads / per_token);
  const int64_t threads = std::min(block_threads, (tokens_per_block * per_token + 31) / 32 * 32);
  const CopyHeadsParams params{.x = c.x.data,
                               .y = c.y.data,
                               .start = c.start.present() ? c.start.as<uint32_t>() : nullptr,
                               .x_strides = strides_of(c.x),
                               .y_strides = strides_of(c.y),
                               .batch = c.x.dim(0),
                               .length = c.x.dim(1),
                               .capacity = c.y.dim(1),
                               .pieces = static_cast<int32_t>(pieces),
                               .heads = static_cast<int32_t>(heads),
                               .tokens_per_block = static_cast<int32_t>(tokens_per_block)};
  return device.bind(device.kernel({.source = "gather_heads.cu",
                                    .entry = "copy_heads",
                                    .constants = row_constants(c.x.dtype, vector),
                                    .param_bytes = sizeof params}),
                     {.grid = {(tokens + tokens_per_block - 1) / tokens_per_block}, .block = {threads}},
                     params);
}

std::function<void()> gather_heads_cuda(CudaDevice& device, const GatherHeads& a) {
  return copy_heads(device, head_copy_of(a));
}

std::function<void()> cache_append_cuda(CudaDevice& device, const CacheAppend& a) {
  return copy_heads(device, {.x = a.x, .y = a.cache, .start = a.start});
}

std::function<void()> cache_concat_cuda(CudaDevice& device, const CacheConcat& a) {
  const auto copies = head_copies_of(a);
  return [old = copy_heads(device, copies[0]), fresh = copy_heads(device, copies[1])] {
    old();
    fresh();
  };
}

}  // namespace tang
