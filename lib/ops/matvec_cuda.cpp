#include "kernels/matvec.h"

#include "lib/base/error.h"
#include "lib/ops/matvec.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

constexpr int64_t block_threads = 256, block_warps = 8;  // threads and warps in the kernel
constexpr int64_t blocks_each = 4;                       // that a multiprocessor holds at once

int64_t groups_of(const Matvec& a) {
  const int64_t width = group_width(a.x.dtype);
  return (a.x.dim(1) + width - 1) / width;
}

int64_t shared_bytes(const Matvec& a) { return a.x.dim(0) * groups_of(a) * 16; }

/// Blocks that all take the same number of rows, as few as keep every multiprocessor full.
int64_t grid_size(const DeviceCaps& caps, const Matvec& a) {
  const int64_t rows_each = a.x.dim(0) <= 2 ? 1 : 2;  // in the kernel
  const int64_t wanted = (a.w.dim(0) + block_warps * rows_each - 1) / (block_warps * rows_each);
  const int64_t most = std::max<int64_t>(1, caps.multiprocessors) * blocks_each;
  const int64_t turns = std::max<int64_t>(1, (wanted + most - 1) / most);
  return (wanted + turns - 1) / turns;
}

}  // namespace

std::string matvec_cuda_supports(const DeviceCaps& caps, const Matvec& a) {
  constexpr int64_t own = 1024;  // static shared memory, rounded up
  if (a.x.dim(0) > most_matvec_rows)
    return fmt::format("takes at most {} rows of x, not {}", most_matvec_rows, a.x.dim(0));
  if (shared_bytes(a) + own > caps.shared_bytes_per_block)
    return fmt::format("x has {} bytes, shared memory {}", shared_bytes(a), caps.shared_bytes_per_block);
  return "";
}

std::function<void()> matvec_cuda(CudaDevice& device, const Matvec& a) {
  const auto row = [](const View& view) { return view.present() ? view.stride(0) : 0; };
  const MatvecParams params{.x = a.x.data,
                            .w = a.w.data,
                            .norm = a.norm.data,
                            .gate = a.gate.data,
                            .residual = a.residual.data,
                            .y = a.y.data,
                            .x_row = row(a.x),
                            .w_row = row(a.w),
                            .gate_row = row(a.gate),
                            .residual_row = row(a.residual),
                            .y_row = row(a.y),
                            .rows = a.w.dim(0),
                            .length = a.x.dim(1),
                            .groups = groups_of(a),
                            .eps = a.eps};
  bool vector = true;
  for (const View& view : {a.x, a.w, a.gate, a.norm}) {
    if (!view.present()) continue;
    const RowWalk walk{view.rank == 1 ? 1 : view.dim(0), a.x.dim(1)};
    vector = vector && vectorised({view}, walk, group_width(a.x.dtype));
  }
  KernelConstants constants = row_constants(a.x.dtype, vector);
  constants.emplace_back("TANG_Y", kernel_type(a.y.dtype));
  constants.emplace_back("TANG_BATCH", std::to_string(a.x.dim(0)));
  return device.bind(device.kernel({.source = "matvec.cu",
                                    .entry = "matvec",
                                    .constants = constants,
                                    .param_bytes = sizeof params,
                                    .shared_bytes = shared_bytes(a)}),
                     {.grid = {grid_size(device.caps(), a)},
                      .block = {block_threads},
                      .shared_bytes = shared_bytes(a),
                      .overlap_previous = true},
                     params);
}

}  // namespace tang
