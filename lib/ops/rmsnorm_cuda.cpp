#include "kernels/rmsnorm.h"

#include <algorithm>

#include "lib/ops/reduce.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

/// `entry`, or its _long form where a row does not fit in registers.
Kernel rmsnorm_kernel(CudaDevice& device, const std::string& entry, Dtype dtype, bool vector, RowTeam team,
                      int64_t param_bytes) {
  return device.kernel({.source = "rmsnorm.cu",
                        .entry = team.groups > 0 ? entry : entry + "_long",
                        .constants = row_constants(dtype, vector, team),
                        .param_bytes = param_bytes});
}

}  // namespace

std::function<void()> rmsnorm_forward_cuda(CudaDevice& device, const RmsNormForward& a) {
  const RmsNormForwardParams params{.x = a.x.data,
                                    .w = a.w.data,
                                    .residual = a.residual.data,
                                    .sum = a.sum.data,
                                    .y = a.y.data,
                                    .rstd = a.rstd.as<float>(),
                                    .x_row = a.x.stride(0),
                                    .residual_row = a.residual.strides[0],
                                    .sum_row = a.sum.strides[0],
                                    .y_row = a.y.stride(0),
                                    .rows = a.x.dim(0),
                                    .dim = a.x.dim(1),
                                    .eps = a.eps};
  const int64_t width = group_width(a.x.dtype);
  const bool vector = vectorised({a.x, a.w, a.residual, a.sum, a.y}, {params.rows, params.dim}, width);
  const RowTeam team = row_team(params.dim, width, 512, 32 / width);
  return device.bind(rmsnorm_kernel(device, "rmsnorm_forward", a.x.dtype, vector, team, sizeof params),
                     launch_teams(params.rows, team), params);
}

std::function<void()> rmsnorm_backward_cuda(CudaDevice& device, const RmsNormBackward& a) {
  constexpr int64_t threads = 256;  // backward_threads in the kernel
  const RmsNormBackwardParams params{.dy = a.dy.data,
                                     .x = a.x.data,
                                     .w = a.w.data,
                                     .rstd = a.rstd.as<float>(),
                                     .d_sum = a.d_sum.data,
                                     .dx = a.dx.data,
                                     .partials = a.partials.as<float>(),
                                     .dy_row = a.dy.stride(0),
                                     .x_row = a.x.stride(0),
                                     .d_sum_row = a.d_sum.strides[0],
                                     .dx_row = a.dx.stride(0),
                                     .rows = a.x.dim(0),
                                     .dim = a.x.dim(1)};
  const int64_t width = group_width(a.x.dtype);
  const bool vector = vectorised({a.dy, a.x, a.w, a.d_sum, a.dx}, {params.rows, params.dim}, width);
  // As few groups a thread as the row allows; with three inputs and dw in registers, more than 4 would spill.
  RowTeam team{};
  for (int64_t groups = 1; team.groups == 0 && groups <= 4; groups *= 2)
    team = row_team(params.dim, width, threads, groups);
  const int64_t teams = threads / team.team;
  // The grid depends on the shape alone, so that dw has the same bits on every GPU of a kind.
  const int64_t parts = std::min(a.partials.dim(0), (params.rows + teams - 1) / teams);
  auto rows = device.bind(rmsnorm_kernel(device, "rmsnorm_backward", a.x.dtype, vector, team, sizeof params),
                          {.grid = {parts}, .block = {threads}}, params);
  auto columns = fold_partials_cuda(device, a.partials.slice(0, 0, parts), a.dw, a.accumulate);
  return [rows, columns] {
    rows();
    columns();
  };
}

}  // namespace tang
