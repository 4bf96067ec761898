#include "lib/device/cpu_gemm.h"

#include <omp.h>

#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"
#include "lib/device/gemm_check.h"

#ifdef TANG_HAVE_ONEDNN
#include <dnnl.h>
#endif

namespace tang {

namespace {

/// What is left of a product without terms.
void scale_rows(const CpuDevice& device, const CpuGemm& p) {
  device.parallel_for(p.m, 1 + 65536 / p.n, [&p](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        float& value = p.c[i * p.ldc + j];
        value = p.beta == 0 ? 0.0f : value * p.beta;
      }
    }
  });
}

[[maybe_unused]] bool portable_wanted() {
#ifdef TANG_HAVE_ONEDNN
  const char* wanted = std::getenv("TANG_GEMM");
  if (wanted == nullptr || *wanted == '\0' || wanted == std::string_view("onednn")) return false;
  if (wanted == std::string_view("portable")) return true;
  fail_input("TANG_GEMM is '{}'; it may be onednn or portable", wanted);
#else
  return true;
#endif
}

#ifdef TANG_HAVE_ONEDNN
void gemm_onednn(const CpuDevice& device, const CpuGemm& p) {
  omp_set_num_threads(device.threads());  // oneDNN cuts its work by omp_get_max_threads
  const dnnl_status_t status = dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k,
                                          p.alpha, p.a, p.lda, p.b, p.ldb, p.beta, p.c, p.ldc);
  if (status != dnnl_success) {
    fail_machine("oneDNN refused a gemm of m {}, n {}, k {} (status {}); TANG_GEMM=portable avoids it", p.m,
                 p.n, p.k, static_cast<int>(status));
  }
}
#endif

}  // namespace

void CpuDevice::gemm(const CpuGemm& problem) const {
  check_gemm_sizes(problem);
  if (problem.m == 0 || problem.n == 0) return;
  if (problem.k == 0 || problem.alpha == 0) return scale_rows(*this, problem);
#ifdef TANG_HAVE_ONEDNN
  static const bool portable = portable_wanted();
  if (!portable) return gemm_onednn(*this, problem);
#endif
  gemm_portable(*this, problem);
}

}  // namespace tang
