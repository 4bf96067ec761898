#include "kernels/softmax.h"

#include "lib/ops/rows.h"
#include "lib/ops/softmax.h"

namespace tang {

namespace {

/// `entry`, or its _long form where a row does not fit in registers.
template <class Params>
std::function<void()> launch(CudaDevice& device, const std::string& entry, std::initializer_list<View> views,
                             const Params& params) {
  const Dtype dtype = views.begin()->dtype;
  const int64_t width = group_width(dtype);
  const RowTeam team = row_team(params.columns, width, 512, 32 / width);
  const bool vector = vectorised(views, {params.rows, params.columns}, width);
  return device.bind(device.kernel({.source = "softmax.cu",
                                    .entry = team.groups > 0 ? entry : entry + "_long",
                                    .constants = row_constants(dtype, vector, team),
                                    .param_bytes = sizeof params}),
                     launch_teams(params.rows, team), params);
}

}  // namespace

std::function<void()> softmax_forward_cuda(CudaDevice& device, const SoftmaxForward& a) {
  const SoftmaxForwardParams params{.x = a.x.data,
                                    .y = a.y.data,
                                    .x_row = a.x.stride(0),
                                    .y_row = a.y.stride(0),
                                    .rows = a.x.dim(0),
                                    .columns = a.x.dim(1),
                                    .causal = a.causal};
  return launch(device, "softmax_forward", {a.x, a.y}, params);
}

std::function<void()> softmax_backward_cuda(CudaDevice& device, const SoftmaxBackward& a) {
  const SoftmaxBackwardParams params{.dy = a.dy.data,
                                     .y = a.y.data,
                                     .dx = a.dx.data,
                                     .dy_row = a.dy.stride(0),
                                     .y_row = a.y.stride(0),
                                     .dx_row = a.dx.stride(0),
                                     .rows = a.y.dim(0),
                                     .columns = a.y.dim(1)};
  return launch(device, "softmax_backward", {a.y, a.dy, a.dx}, params);
}

}  // namespace tang
