#include "kernels/rmsnorm.h"

#include <algorithm>

#include "lib/ops/rmsnorm.h"

namespace tang {

namespace {

template <class Params>
Kernel rmsnorm_kernel(CudaDevice& device, const char* entry, Dtype dtype, const Params&) {
  return device.kernel({.source = "rmsnorm.cu",
                        .entry = entry,
                        .constants = {{"TANG_T", kernel_type(dtype)}},
                        .param_bytes = sizeof(Params)});
}

int64_t block_for(int64_t dim) { return std::clamp<int64_t>((dim + 31) / 32 * 32, 32, 256); }

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
  return device.bind(rmsnorm_kernel(device, "rmsnorm_forward", a.x.dtype, params),
                     {.grid = {params.rows}, .block = {block_for(params.dim)}}, params);
}

std::function<void()> rmsnorm_backward_cuda(CudaDevice& device, const RmsNormBackward& a) {
  const int64_t parts = std::min(a.partials.dim(0), a.x.dim(0));
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
  const RmsNormFoldParams fold{.partials = params.partials,
                               .dw = a.dw.as<float>(),
                               .parts = parts,
                               .dim = params.dim,
                               .accumulate = a.accumulate};
  auto rows = device.bind(rmsnorm_kernel(device, "rmsnorm_backward", a.x.dtype, params),
                          {.grid = {parts}, .block = {block_for(params.dim)}}, params);
  auto columns = device.bind(rmsnorm_kernel(device, "rmsnorm_fold", a.x.dtype, fold),
                             {.grid = {(params.dim + 127) / 128}, .block = {128}}, fold);
  return [rows, columns] {
    rows();
    columns();
  };
}

}  // namespace tang
