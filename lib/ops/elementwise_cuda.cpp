#include "kernels/elementwise.h"

#include "lib/ops/elementwise.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

/// y = f(a, b) with `width` elements a thread; b may be absent.
std::function<void()> elementwise(CudaDevice& device, const char* entry, const View& a, const View& b,
                                  const View& y, int64_t width, float value = 0) {
  const RowWalk walk = b.present() ? walk_rows({y, a, b}) : walk_rows({y, a});
  const RowLaunch launch = launch_rows(walk, width);
  KernelConstants constants = row_constants(a.dtype, vectorised({a, b, y}, walk, width));
  constants.emplace_back("TANG_Y", kernel_type(y.dtype));
  const ElementwiseParams params{.a = a.data,
                                 .b = b.data,
                                 .y = y.data,
                                 .a_row = a.strides[0],
                                 .b_row = b.strides[0],
                                 .y_row = y.strides[0],
                                 .length = walk.length,
                                 .tiles = launch.tiles,
                                 .value = value};
  return device.bind(
      device.kernel(
          {.source = "elementwise.cu", .entry = entry, .constants = constants, .param_bytes = sizeof params}),
      launch.shape, params);
}

}  // namespace

std::function<void()> cast_cuda(CudaDevice& device, const Cast& a) {
  return elementwise(device, "cast", a.x, {}, a.y, 8);  // a whole group of the bf16 side
}

std::function<void()> add_cuda(CudaDevice& device, const Add& a) {
  return elementwise(device, "add", a.a, a.b, a.y, group_width(a.y.dtype));
}

std::function<void()> add_assign_cuda(CudaDevice& device, const AddAssign& a) {
  return elementwise(device, "add_assign", a.x, {}, a.y, group_width(a.x.dtype));
}

std::function<void()> fill_cuda(CudaDevice& device, const FillOp& a) {
  return elementwise(device, "fill", a.y, {}, a.y, group_width(a.y.dtype), a.value);
}

std::function<void()> transpose_cuda(CudaDevice& device, const Transpose& a) {
  constexpr int64_t side = 64, threads = 256;  // tile_side and transpose_threads in the kernel
  const int64_t rows = a.x.dim(0), columns = a.x.dim(1), width = group_width(a.x.dtype);
  const bool vector = vectorised({a.x}, {rows, columns}, width) && vectorised({a.y}, {columns, rows}, width);
  const TransposeParams params{.x = a.x.data,
                               .y = a.y.data,
                               .x_row = a.x.stride(0),
                               .y_row = a.y.stride(0),
                               .rows = rows,
                               .columns = columns,
                               .column_tiles = (columns + side - 1) / side};
  return device.bind(device.kernel({.source = "elementwise.cu",
                                    .entry = "transpose",
                                    .constants = row_constants(a.x.dtype, vector),
                                    .param_bytes = sizeof params}),
                     {.grid = {(rows + side - 1) / side * params.column_tiles}, .block = {threads}}, params);
}

}  // namespace tang
