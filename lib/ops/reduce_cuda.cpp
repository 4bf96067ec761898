#include "kernels/reduce.h"

#include <bit>

#include "lib/ops/reduce.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

constexpr int64_t block_threads = 256;

/// Entries of R that one block sums (`chunk` in reduce.cpp): a function of the shape alone.
int64_t reduce_chunk(int64_t inner) { return inner == 1 ? 16384 : 128; }

/// One launch: x [O, R, I] to y, whose axes are O, chunks and I.
std::function<void()> sum_chunks(CudaDevice& device, const View& x, const View& y, int64_t chunk,
                                 int64_t widest, bool accumulate) {
  const int64_t inner = x.dim(2), width = group_width(x.dtype);
  const bool rows = inner == 1 && x.stride(1) == 1;
  const int64_t team = x.dim(1) <= 4096 ? 32 : block_threads;
  const auto groups = static_cast<uint64_t>((inner + width - 1) / width);
  const int64_t across = std::min<int64_t>(widest, static_cast<int64_t>(std::bit_ceil(groups)));
  const ReduceParams params{.x = x.data,
                            .y = y.data,
                            .x_outer = x.stride(0),
                            .x_row = x.stride(1),
                            .y_outer = y.stride(0),
                            .y_chunk = y.stride(1),
                            .outer = x.dim(0),
                            .reduced = x.dim(1),
                            .inner = inner,
                            .chunk = chunk,
                            .chunks = y.dim(1),
                            .tiles = (inner + across * width - 1) / (across * width),
                            .across = static_cast<int32_t>(across),
                            .accumulate = accumulate};
  const int64_t parts = params.outer * params.chunks, teams = rows ? block_threads / team : 1;
  const bool vector =
      rows ? vectorised({x.slice(2, 0, 1).reshape({x.dim(0), x.dim(1)})}, {x.dim(0), x.dim(1)}, width)
           : vectorised({x}, {x.dim(0) * x.dim(1), inner}, width);
  KernelConstants constants = row_constants(x.dtype, vector);
  constants.emplace_back("TANG_Y", kernel_type(y.dtype));
  if (rows) constants.emplace_back("TANG_TEAM", std::to_string(team));
  return device.bind(
      device.kernel({.source = "reduce.cu",
                     .entry = rows ? "reduce_rows" : "reduce_columns",
                     .constants = constants,
                     .param_bytes = sizeof params}),
      {.grid = {rows ? (parts + teams - 1) / teams : parts * params.tiles}, .block = {block_threads}},
      params);
}

/// [O, I] as [O, 1, I].
View one_chunk(const View& y) {
  View view = y;
  view.rank = 3;
  view.dims = {y.dim(0), 1, y.dim(1)};
  view.strides = {y.stride(0), 0, 1};
  return view;
}

}  // namespace

std::function<void()> reduce_sum_cuda(CudaDevice& device, const ReduceSum& a) {
  const int64_t chunk = reduce_chunk(a.x.dim(2));
  if (a.x.dim(1) <= chunk) return sum_chunks(device, a.x, one_chunk(a.y), chunk, 32, a.accumulate);
  auto chunks = sum_chunks(device, a.x, a.partials, chunk, 32, false);
  auto total = sum_chunks(device, a.partials, one_chunk(a.y), a.partials.dim(1), 8, a.accumulate);
  return [chunks, total] {
    chunks();
    total();
  };
}

std::function<void()> fold_partials_cuda(CudaDevice& device, const View& partials, const View& y,
                                         bool accumulate) {
  const View x = partials.reshape({1, partials.dim(0), partials.dim(1)});
  // Narrow blocks: few columns and many partial sums give more of them to spread over the GPU.
  return sum_chunks(device, x, one_chunk(y.reshape({1, y.dim(0)})), partials.dim(0), 8, accumulate);
}

}  // namespace tang
