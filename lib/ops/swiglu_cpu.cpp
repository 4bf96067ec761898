#include "lib/device/simd.h"
#include "lib/ops/rows.h"
#include "lib/ops/swiglu.h"

namespace tang {

namespace {

template <class T>
T* row_of(const View& view, int64_t row) {
  return static_cast<T*>(view.data) + row * view.strides[0];
}

inline float sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

template <class T>
void output_row(const View& gates, const View& ups, const View& outputs, int64_t row, int64_t begin,
                int64_t end) {
  const T *gate = row_of<T>(gates, row), *up = row_of<T>(ups, row);
  T* y = row_of<T>(outputs, row);
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    const float g = load(gate, i);
    store(y, i, load(up, i) * (g * sigmoid(g)));
  }
}

template <class T>
void forward(CpuDevice& device, const SwigluForward& a) {
  for_elements(device, walk_rows({a.gate, a.up, a.y}), [&](int64_t row, int64_t begin, int64_t end) {
    output_row<T>(a.gate, a.up, a.y, row, begin, end);
  });
}

// The simd pragma promises that an element of d_gate or d_up is at most its own gate's or up's memory.
template <class T>
void backward(CpuDevice& device, const SwigluBackward& a) {
  const View& output = a.y.present() ? a.y : a.d_up;  // where it is left out, any of the others stands for it
  const RowWalk walk = walk_rows({a.dy, a.gate, a.up, a.d_gate, a.d_up, output});
  for_elements(device, walk, [&](int64_t row, int64_t begin, int64_t end) {
    // Before its inputs may be overwritten.
    if (a.y.present()) output_row<T>(a.gate, a.up, a.y, row, begin, end);
    const T *dy = row_of<T>(a.dy, row), *gate = row_of<T>(a.gate, row), *up = row_of<T>(a.up, row);
    T *d_gate = row_of<T>(a.d_gate, row), *d_up = row_of<T>(a.d_up, row);
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const float g = load(gate, i), upstream = load(dy, i), through = upstream * load(up, i);
      const float s = sigmoid(g), silu = g * s;
      store(d_gate, i, through * (s + silu * (1.0f - s)));
      store(d_up, i, upstream * silu);
    }
  });
}

}  // namespace

void swiglu_forward_cpu(CpuDevice& device, const SwigluForward& a) {
  a.y.dtype == Dtype::f32 ? forward<float>(device, a) : forward<bf16>(device, a);
}

void swiglu_backward_cpu(CpuDevice& device, const SwigluBackward& a) {
  a.dy.dtype == Dtype::f32 ? backward<float>(device, a) : backward<bf16>(device, a);
}

}  // namespace tang
