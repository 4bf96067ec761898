#include "lib/cuda/gemm_check.h"

#include <algorithm>

#include "lib/base/error.h"

namespace tang {

namespace {
void check_leading(const char* name, int64_t leading, int64_t width) {
  if (leading < std::max<int64_t>(1, width))
    fail_input("gemm: {} is {}, below the row's {}", name, leading, width);
}
}  // namespace

void check_gemm(const CudaGemm& p) {
  if (p.m < 0 || p.n < 0 || p.k < 0)
    fail_input("gemm: m {}, n {}, k {}: none may be negative", p.m, p.n, p.k);
  const bool floats = p.input == Dtype::f32 && p.output == Dtype::f32;
  const bool halves = p.input == Dtype::bf16 && p.output != Dtype::u32;
  if (!floats && !halves) {
    fail_input("gemm: {} → {} is not among f32 → f32, bf16 → bf16, bf16 → f32", name_of(p.input),
               name_of(p.output));
  }
  check_leading("lda", p.lda, p.transpose_a ? p.m : p.k);
  check_leading("ldb", p.ldb, p.transpose_b ? p.k : p.n);
  check_leading("ldc", p.ldc, p.n);
}

}  // namespace tang
