#include "kernels/matvec.h"

#include <algorithm>

#include "lib/base/error.h"
#include "lib/ops/matvec.h"
#include "lib/ops/project_append.h"
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
Shape shape_of(int64_t batch, int64_t groups, bool appends) {
  if (batch > 2) return {2, 2, groups <= 64, 4};
  const int64_t rows_each = appends ? 2 : 1;
  const int64_t most_depth = 12 / rows_each;  // registers for more would cost more than they bring
  const int64_t lane_groups = std::max<int64_t>(1, (groups + 31) / 32);
  const int64_t tiles = (lane_groups + most_depth - 1) / most_depth;
  const int64_t depth = (lane_groups + tiles - 1) / tiles;
  return {rows_each, depth, tiles == 1, appends || depth > 4 ? 2 : 4};
}

int64_t groups_of(const View& x) {
  const int64_t width = group_width(x.dtype);
  return (x.dim(1) + width - 1) / width;
}

int64_t shared_bytes(const View& x) { return x.dim(0) * groups_of(x) * 16; }

int64_t row_of(const View& view) { return view.present() ? view.stride(0) : 0; }

/// Blocks that all take the same number of rows, as few as keep every multiprocessor full.
int64_t grid_size(const DeviceCaps& caps, int64_t rows, const Shape& shape) {
  const int64_t wanted = (rows + block_warps * shape.rows_each - 1) / (block_warps * shape.rows_each);
  const int64_t most = std::max<int64_t>(1, caps.multiprocessors) * shape.blocks;
  const int64_t turns = std::max<int64_t>(1, (wanted + most - 1) / most);
  return (wanted + turns - 1) / turns;
}

std::string supports(const DeviceCaps& caps, const View& x) {
  constexpr int64_t own = 1024;  // static shared memory, rounded up
  if (x.dim(0) > most_matvec_rows)
    return fmt::format("takes at most {} rows of x, not {}", most_matvec_rows, x.dim(0));
  if (shared_bytes(x) + own > caps.shared_bytes_per_block)
    return fmt::format("x has {} bytes, shared memory {}", shared_bytes(x), caps.shared_bytes_per_block);
  return "";
}

/// `half`: TANG_APPEND in the kernel.
std::function<void()> launch_of(CudaDevice& device, const Matvec& a, const MatvecAppend& append,
                                int64_t half) {
  const MatvecParams params{.x = a.x.data,
                            .w = a.w.data,
                            .norm = a.norm.data,
                            .gate = a.gate.data,
                            .residual = a.residual.data,
                            .y = a.y.data,
                            .x_row = row_of(a.x),
                            .w_row = row_of(a.w),
                            .gate_row = row_of(a.gate),
                            .residual_row = row_of(a.residual),
                            .y_row = row_of(a.y),
                            .rows = a.w.dim(0),
                            .length = a.x.dim(1),
                            .groups = groups_of(a.x),
                            .eps = a.eps,
                            .append = append};
  bool vector = true;
  for (const View& view : {a.x, a.w, a.gate, a.norm}) {
    if (!view.present()) continue;
    const RowWalk walk{view.rank == 1 ? 1 : view.dim(0), a.x.dim(1)};
    vector = vector && vectorised({view}, walk, group_width(a.x.dtype));
  }
  const Shape shape = shape_of(a.x.dim(0), params.groups, half > 0);
  KernelConstants constants = row_constants(a.x.dtype, vector);
  constants.emplace_back("TANG_Y", kernel_type(a.y.dtype));
  constants.emplace_back("TANG_BATCH", std::to_string(a.x.dim(0)));
  constants.emplace_back("TANG_DEPTH", std::to_string(shape.depth));
  constants.emplace_back("TANG_WHOLE", shape.whole ? "1" : "0");
  if (half > 0) constants.emplace_back("TANG_APPEND", std::to_string(half));
  return device.bind(device.kernel({.source = "matvec.cu",
                                    .entry = "matvec",
                                    .constants = constants,
                                    .param_bytes = sizeof params,
                                    .shared_bytes = shared_bytes(a.x)}),
                     {.grid = {grid_size(device.caps(), params.rows, shape)},
                      .block = {block_threads},
                      .shared_bytes = shared_bytes(a.x),
                      .overlap_previous = true},
                     params);
}

}  // namespace

std::string matvec_cuda_supports(const DeviceCaps& caps, const Matvec& a) { return supports(caps, a.x); }

std::function<void()> matvec_cuda(CudaDevice& device, const Matvec& a) { return launch_of(device, a, {}, 0); }

std::string project_append_cuda_supports(const DeviceCaps& caps, const ProjectAppend& a) {
  return supports(caps, a.x);
}

std::function<void()> project_append_cuda(CudaDevice& device, const ProjectAppend& a) {
  const MatvecAppend append{.cos = a.cos.as<float>(),
                            .sin = a.sin.as<float>(),
                            .start = a.start.as<uint32_t>(),
                            .k_cache = a.k_cache.data,
                            .v_cache = a.v_cache.data,
                            .cos_row = a.cos.stride(0),
                            .sin_row = a.sin.stride(0),
                            .q_head = a.q.stride(1),
                            .k_batch = a.k_cache.stride(0),
                            .k_row = a.k_cache.stride(1),
                            .k_head = a.k_cache.stride(2),
                            .v_batch = a.v_cache.stride(0),
                            .v_row = a.v_cache.stride(1),
                            .v_head = a.v_cache.stride(2),
                            .capacity = a.k_cache.dim(1),
                            .heads = static_cast<int32_t>(a.q.dim(1)),
                            .kv_heads = static_cast<int32_t>(a.k_cache.dim(2))};
  return launch_of(device, {.x = a.x, .w = a.w, .norm = a.norm, .y = a.q, .eps = a.eps}, append,
                   a.q.dim(2) / 2);
}

}  // namespace tang
