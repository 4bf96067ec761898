#include "kernels/swiglu.h"

#include "lib/ops/rows.h"
#include "lib/ops/swiglu.h"

namespace tang {

namespace {

Kernel swiglu_kernel(CudaDevice& device, const char* entry, Dtype dtype, bool vector, int64_t param_bytes) {
  return device.kernel({.source = "swiglu.cu",
                        .entry = entry,
                        .constants = row_constants(dtype, vector),
                        .param_bytes = param_bytes});
}

}  // namespace

std::function<void()> swiglu_forward_cuda(CudaDevice& device, const SwigluForward& a) {
  const int64_t width = group_width(a.y.dtype);
  const RowWalk walk = walk_rows({a.gate, a.up, a.y});
  const RowLaunch launch = launch_rows(walk, width);
  const SwigluForwardParams params{.gate = a.gate.data,
                                   .up = a.up.data,
                                   .y = a.y.data,
                                   .gate_row = a.gate.stride(0),
                                   .up_row = a.up.stride(0),
                                   .y_row = a.y.stride(0),
                                   .length = walk.length,
                                   .tiles = launch.tiles};
  const bool vector = vectorised({a.gate, a.up, a.y}, walk, width);
  return device.bind(swiglu_kernel(device, "swiglu_forward", a.y.dtype, vector, sizeof params), launch.shape,
                     params);
}

std::function<void()> swiglu_backward_cuda(CudaDevice& device, const SwigluBackward& a) {
  const int64_t width = group_width(a.dy.dtype);
  const View& y = a.y.present() ? a.y : a.d_up;  // where it is left out, any of the others stands for it
  const RowWalk walk = walk_rows({a.dy, a.gate, a.up, a.d_gate, a.d_up, y});
  const RowLaunch launch = launch_rows(walk, width);
  const SwigluBackwardParams params{.dy = a.dy.data,
                                    .gate = a.gate.data,
                                    .up = a.up.data,
                                    .d_gate = a.d_gate.data,
                                    .d_up = a.d_up.data,
                                    .y = a.y.data,
                                    .dy_row = a.dy.stride(0),
                                    .gate_row = a.gate.stride(0),
                                    .up_row = a.up.stride(0),
                                    .d_gate_row = a.d_gate.stride(0),
                                    .d_up_row = a.d_up.stride(0),
                                    .y_row = y.stride(0),
                                    .length = walk.length,
                                    .tiles = launch.tiles};
  const bool vector = vectorised({a.dy, a.gate, a.up, a.d_gate, a.d_up, y}, walk, width);
  return device.bind(swiglu_kernel(device, "swiglu_backward", a.dy.dtype, vector, sizeof params),
                     launch.shape, params);
}

}  // namespace tang
