// C = op(A) · op(B), row-major, f32 accumulation. op transposes where its flag is set.
#pragma once

#include <algorithm>

#include "lib/ops/op.h"

namespace tang {

struct Matmul {
  View a;  // [M, K], or [K, M] when transpose_a
  View b;  // [K, N], or [N, K] when transpose_b
  View c;  // [M, N], in the mode's dtype or f32
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;  // c += instead of c =
  bool tf32 = false;  // f32 mode on CUDA: products of inputs cut to 10 fraction bits; the CPU ignores it
  View turned;        // scratch: the operand that turned_operand names, transposed
};

/// Hopper's TF32 products want K innermost in both operands, and a weight gradient has it in neither. A
/// transposed copy of the narrower one first is worth it when each of its elements then serves at least
/// `turned_uses` products. Shapes alone decide, because the choice changes bits.
enum class Turned { none, a, b };
constexpr int64_t turned_uses = 1024;
Turned turned_operand(const Matmul& a);

extern const Op<Matmul> matmul;

void matmul_reference(Ref& r);
void matmul_cpu(CpuDevice& device, const Matmul& a);
std::function<void()> matmul_cuda(CudaDevice& device, const Matmul& a);

/// Elements between rows as a GEMM library wants them: at least 1 and at least the row's width.
inline int64_t leading_dimension(const View& matrix) {
  return std::max({int64_t{1}, matrix.dim(1), matrix.stride(0)});
}

}  // namespace tang
