#include "kernels/rope.h"

#include <algorithm>

#include "lib/ops/rope.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

constexpr int64_t block_threads = 256;

RopeStrides strides_of(const View& view) { return {view.stride(0), view.stride(1), view.stride(2)}; }

std::function<void()> turn(CudaDevice& device, const RopeForward& a, float direction) {
  const int64_t batch = a.x.dim(0), length = a.x.dim(1), heads = a.x.dim(2), dim = a.x.dim(3);
  const int64_t half = a.cos.dim(1), width = group_width(a.x.dtype);
  // Both halves and the rest must be whole groups for the vector path.
  const bool vector = half % width == 0 && vectorised({a.x, a.y}, {batch * length * heads, dim}, width) &&
                      vectorised({a.cos, a.sin}, {a.cos.dim(0), half}, 4);
  const int64_t piece = vector ? width : 1, rest = a.x.data == a.y.data ? 0 : dim - 2 * half;
  const int64_t per_token = (half + rest) / piece * heads;
  if (per_token == 0) return [] {};  // in place, and nothing turns
  const int64_t tokens_per_block =
      std::clamp<int64_t>(block_threads / per_token, 1, std::max<int64_t>(1, length));
  const int64_t tiles = (length + tokens_per_block - 1) / tokens_per_block;
  const int64_t threads = std::min(block_threads, (tokens_per_block * per_token + 31) / 32 * 32);
  const RopeParams params{.x = a.x.data,
                          .cos = a.cos.as<float>(),
                          .sin = a.sin.as<float>(),
                          .y = a.y.data,
                          .start = a.start.present() ? a.start.as<uint32_t>() : nullptr,
                          .x_strides = strides_of(a.x),
                          .y_strides = strides_of(a.y),
                          .cos_row = a.cos.stride(0),
                          .sin_row = a.sin.stride(0),
                          .length = length,
                          .position = a.position,
                          .positions = a.cos.dim(0),
                          .tokens_per_block = static_cast<int32_t>(tokens_per_block),
                          .tiles = static_cast<int32_t>(tiles),
                          .sin_sign = direction};
  KernelConstants constants = row_constants(a.x.dtype, vector);
  constants.emplace_back("TANG_HEADS", std::to_string(heads));
  constants.emplace_back("TANG_HALF", std::to_string(half));
  constants.emplace_back("TANG_REST", std::to_string(rest));
  if (a.start.present()) constants.emplace_back("TANG_START", "1");
  return device.bind(device.kernel({.source = "rope.cu",
                                    .entry = "rope",
                                    .constants = std::move(constants),
                                    .param_bytes = sizeof params}),
                     {.grid = {batch * tiles}, .block = {threads}}, params);
}

}  // namespace

std::function<void()> rope_forward_cuda(CudaDevice& device, const RopeForward& a) {
  return turn(device, a, 1.0f);
}

std::function<void()> rope_backward_cuda(CudaDevice& device, const RopeBackward& a) {
  return turn(device, {.x = a.dy, .cos = a.cos, .sin = a.sin, .y = a.dx, .position = a.position}, -1.0f);
}

}  // namespace tang
