#include "kernels/matvec.h"

#include <algorithm>

#include "lib/base/error.h"
#include "lib/ops/matvec.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

constexpr int64_t block_threads = 256, block_warps = 8;  // threads and warps in the kernel

/// rows_each and depth in the kernel, whether a row of w is one tile, and the blocks that a multiprocessor
/// holds at once, about.
struct Shape {
  int64_t rows_each, depth;
  bool whole;
  int64_t blocks;
};
Shape shape_of(int64_t batch, int64_t groups) {
  if (batch > 2) return {2, 2, groups <= 64, 4};
  constexpr int64_t most_depth = 12;  // registers for more would cost more than they bring
  const int64_t lane_groups = std::max<int64_t>(1, (groups + 31) / 32);
  const int64_t tiles = (lane_groups + most_depth - 1) / most_depth;
  const int64_t depth = (lane_groups + tiles - 1) / tiles;
  return {1, depth, tiles == 1, depth > 4 ? 2 : 4};
}

int64_t groups_of(const Matvec& a) {
  const int64_t width = group_width(a.x.dtype);
  return (a.x.dim(1) + width - 1) / width;
}

int64_t shared_bytes(const Matvec& a) { return a.x.dim(0) * groups_of(a) * 16; }

/// Blocks that all take the same number of rows, as few as keep every multiprocessor full.
int64_t grid_size(const DeviceCaps& caps, const Matvec& a, const Shape& shape) {
  const int64_t wanted = (a.w.dim(0) + block_warps * shape.rows_each - 1) / (block_warps * shape.rows_each);
  const int64_t most = std::max<int64_t>(1, caps.multiprocessors) * shape.blocks;
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
  const Shape shape = shape_of(a.x.dim(0), params.groups);
  constants.emplace_back("TANG_BATCH", std::to_string(a.x.dim(0)));
  constants.emplace_back("TANG_DEPTH", std::to_string(shape.depth));
  constants.emplace_back("TANG_WHOLE", shape.whole ? "1" : "0");
  return device.bind(device.kernel({.source = "matvec.cu",
                                    .entry = "matvec",
                                    .constants = constants,
                                    .param_bytes = sizeof params,
                                    .shared_bytes = shared_bytes(a)}),
                     {.grid = {grid_size(device.caps(), a, shape)},
                      .block = {block_threads},
                      .shared_bytes = shared_bytes(a),
                      .overlap_previous = true},
                     params);
}

}  // namespace tang
