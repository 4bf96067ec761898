#include "lib/device/simd.h"
#include "lib/ops/elementwise.h"
#include "lib/ops/rows.h"

namespace tang {

namespace {

template <class T>
T* row_of(const View& view, int64_t row) {
  return static_cast<T*>(view.data) + row * view.strides[0];
}

template <class X, class Y>
void cast_rows(CpuDevice& device, const Cast& a) {
  for_elements(device, walk_rows({a.x, a.y}), [&](int64_t row, int64_t begin, int64_t end) {
    const X* x = row_of<X>(a.x, row);
    Y* y = row_of<Y>(a.y, row);
    for (int64_t i = begin; i < end; ++i) store(y, i, load(x, i));
  });
}

// The simd pragmas promise what in-place use needs and the compiler cannot see: an element may be its own
// output, never another one's.
template <class T>
void add_rows(CpuDevice& device, const Add& args) {
  for_elements(device, walk_rows({args.a, args.b, args.y}), [&](int64_t row, int64_t begin, int64_t end) {
    const T *a = row_of<T>(args.a, row), *b = row_of<T>(args.b, row);
    T* y = row_of<T>(args.y, row);
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) store(y, i, load(a, i) + load(b, i));
  });
}

template <class T>
void add_assign_rows(CpuDevice& device, const AddAssign& a) {
  for_elements(device, walk_rows({a.x, a.y}), [&](int64_t row, int64_t begin, int64_t end) {
    const T* x = row_of<T>(a.x, row);
    float* y = row_of<float>(a.y, row);
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) y[i] += load(x, i);
  });
}

template <class T>
void fill_rows(CpuDevice& device, const FillOp& a) {
  const float value = a.value;
  for_elements(device, walk_rows({a.y}), [&](int64_t row, int64_t begin, int64_t end) {
    T* y = row_of<T>(a.y, row);
    for (int64_t i = begin; i < end; ++i) store(y, i, value);
  });
}

/// Square tiles through a buffer: a power-of-two row stride puts a whole column of x in one set of the cache,
/// so x is read along its rows.
template <class T>
void transpose_tiles(CpuDevice& device, const Transpose& a) {
  constexpr int64_t side = 32;
  const int64_t rows = a.x.dim(0), columns = a.x.dim(1);
  device.parallel_for((columns + side - 1) / side, 1, [&](int64_t first, int64_t last) {
    T tile[side][side + 1];
    for (int64_t column0 = first * side; column0 < std::min(columns, last * side); column0 += side) {
      const int64_t width = std::min(side, columns - column0);
      for (int64_t row0 = 0; row0 < rows; row0 += side) {
        const int64_t height = std::min(side, rows - row0);
        for (int64_t r = 0; r < height; ++r) {
          std::copy_n(row_of<T>(a.x, row0 + r) + column0, width, tile[r]);
        }
        for (int64_t c = 0; c < width; ++c) {
          T* y = row_of<T>(a.y, column0 + c) + row0;
          for (int64_t r = 0; r < height; ++r) y[r] = tile[r][c];
        }
      }
    }
  });
}

}  // namespace

void cast_cpu(CpuDevice& device, const Cast& a) {
  a.x.dtype == Dtype::f32 ? cast_rows<float, bf16>(device, a) : cast_rows<bf16, float>(device, a);
}

void add_cpu(CpuDevice& device, const Add& a) {
  a.a.dtype == Dtype::f32 ? add_rows<float>(device, a) : add_rows<bf16>(device, a);
}

void add_assign_cpu(CpuDevice& device, const AddAssign& a) {
  a.x.dtype == Dtype::f32 ? add_assign_rows<float>(device, a) : add_assign_rows<bf16>(device, a);
}

void fill_cpu(CpuDevice& device, const FillOp& a) {
  a.y.dtype == Dtype::f32 ? fill_rows<float>(device, a) : fill_rows<bf16>(device, a);
}

void transpose_cpu(CpuDevice& device, const Transpose& a) {
  a.x.dtype == Dtype::f32 ? transpose_tiles<float>(device, a) : transpose_tiles<bf16>(device, a);
}

}  // namespace tang
