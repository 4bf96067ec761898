// What every matrix product asks of its sizes, on either back end.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/error.h"

namespace tang {

inline void check_leading(const char* name, int64_t leading, int64_t width) {
  if (leading < std::max<int64_t>(1, width)) {
    fail_input("gemm: {} is {}, below the row's {}", name, leading, width);
  }
}

/// An input error, with its name, for a negative size or a row longer than its stride. Problem: CpuGemm or
/// CudaGemm.
template <class Problem>
void check_gemm_sizes(const Problem& p) {
  if (p.m < 0 || p.n < 0 || p.k < 0) {
    fail_input("gemm: m {}, n {}, k {}: none may be negative", p.m, p.n, p.k);
  }
  check_leading("lda", p.lda, p.transpose_a ? p.m : p.k);
  check_leading("ldb", p.ldb, p.transpose_b ? p.k : p.n);
  check_leading("ldc", p.ldc, p.n);
}

}  // namespace tang
