#include "lib/ops/elementwise.h"
#include "lib/ops/matmul.h"

namespace tang {

namespace {

/// A product without terms is zero: c keeps its content when it accumulates, else it is cleared.
std::function<void()> clear(CudaDevice& device, const View& c, bool accumulate) {
  if (accumulate) return [] {};
  return [&device, c] {
    if (c.packed()) return device.fill_bytes(c.data, 0, c.bytes());
    for (int64_t row = 0; row < c.dim(0); ++row) {
      const View part = c.slice(0, row, row + 1);
      device.fill_bytes(part.data, 0, part.bytes());
    }
  };
}

std::function<void()> product(CudaDevice& device, const Matmul& a) {
  return device.gemm({.transpose_a = a.transpose_a,
                      .transpose_b = a.transpose_b,
                      .m = a.c.dim(0),
                      .n = a.c.dim(1),
                      .k = a.transpose_a ? a.a.dim(0) : a.a.dim(1),
                      .beta = a.accumulate ? 1.0f : 0.0f,
                      .input = a.a.dtype,
                      .output = a.c.dtype,
                      .math = a.tf32 && a.a.dtype == Dtype::f32 ? MathMode::tf32 : MathMode::strict,
                      .a = a.a.data,
                      .lda = leading_dimension(a.a),
                      .b = a.b.data,
                      .ldb = leading_dimension(a.b),
                      .c = a.c.data,
                      .ldc = leading_dimension(a.c)});
}

}  // namespace

std::function<void()> matmul_cuda(CudaDevice& device, const Matmul& a) {
  if ((a.transpose_a ? a.a.dim(0) : a.a.dim(1)) == 0) return clear(device, a.c, a.accumulate);
  const Turned turned = turned_operand(a);
  if (turned == Turned::none) return product(device, a);
  Matmul plain = a;
  View& operand = turned == Turned::a ? plain.a : plain.b;
  const View across = operand;
  operand = a.turned.reshape({across.dim(1), across.dim(0)});
  if (turned == Turned::a)
    plain.transpose_a = false;
  else
    plain.transpose_b = true;
  return [turn = transpose_cuda(device, {.x = across, .y = operand}), multiply = product(device, plain)] {
    turn();
    multiply();
  };
}

}  // namespace tang
