#include "lib/cuda/blas_library.h"

#include <cstring>

#include "lib/base/error.h"
#include "lib/base/spans.h"

namespace tang {

namespace {

static_assert(sizeof(GemmAlgorithm) == sizeof(cublasLtMatmulAlgo_t));

cublasLtMatmulAlgo_t native(const GemmAlgorithm& algorithm) {
  cublasLtMatmulAlgo_t result;
  std::memcpy(&result, algorithm.data(), sizeof result);
  return result;
}

cudaDataType_t data_type_of(Dtype dtype) { return dtype == Dtype::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

template <class Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  require(lt().MatmulDescSetAttribute(operation, attribute, &value, sizeof value), "setting a product up");
}

template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  require(lt().MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
          "setting preferences");
}

/// What the library is to propose for `p`.
class Preference {
 public:
  Preference(const CudaGemm& p, int64_t workspace_bytes) {
    require(lt().MatmulPreferenceCreate(&preference_), "creating preferences");
    set(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes));
    // Partial sums only in f32: the other schemes round them to the output's type or add them in no fixed
    // order.
    set(preference_, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    set(preference_, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b));
    set(preference_, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a));
    set(preference_, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.c));
    set(preference_, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c));
  }
  ~Preference() { lt().MatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  operator cublasLtMatmulPreference_t() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

GemmCandidate candidate_of(const cublasLtMatmulHeuristicResult_t& found) {
  GemmCandidate candidate;
  std::memcpy(candidate.algorithm.data(), &found.algo, sizeof found.algo);
  int32_t splits = 1;
  size_t written = 0;
  require(lt().MatmulAlgoConfigGetAttribute(&found.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                            sizeof splits, &written),
          "reading an algorithm");
  candidate.splits = splits;
  candidate.waves = found.wavesCount;
  candidate.workspace = static_cast<int64_t>(found.workspaceSize);
  return candidate;
}

}  // namespace

const CublasLt& lt() {
  static const CublasLt instance = [] {
    const Span span("libcublasLt.so");
    return CublasLt();
  }();
  return instance;
}

void require(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail_machine("cuBLASLt: {} from {}", lt().GetStatusString(status), what);
}

BlasHandle::BlasHandle() {
  const Span span("cublasLtCreate");
  require(lt().Create(&handle_), "cublasLtCreate");
}

BlasHandle::~BlasHandle() { lt().Destroy(handle_); }

/// cuBLAS counts columns first. A row-major matrix is its transpose there, so C = A·B becomes Cᵀ = Bᵀ·Aᵀ with
/// the operands swapped and nothing moved.
Product::Product(const CudaGemm& p) : problem_(p) {
  const bool tf32 = p.math == MathMode::tf32 && p.input == Dtype::f32;
  cublasLtMatmulDesc_t operation = nullptr;
  require(
      lt().MatmulDescCreate(&operation, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "describing a product");
  operation_.reset(operation);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  first_ = layout(p.input, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k, p.ldb);
  second_ = layout(p.input, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m, p.lda);
  result_ = layout(p.output, p.n, p.m, p.ldc);
}

Product::Layout Product::layout(Dtype dtype, int64_t rows, int64_t columns, int64_t ld) {
  cublasLtMatrixLayout_t layout = nullptr;
  require(lt().MatrixLayoutCreate(&layout, data_type_of(dtype), rows, columns, ld), "describing a matrix");
  return Layout(layout);
}

std::vector<GemmCandidate> Product::candidates(cublasLtHandle_t handle, int64_t workspace_bytes,
                                               int count) const {
  const CudaGemm& p = problem_;
  std::vector<cublasLtMatmulHeuristicResult_t> found(count);
  int found_count = 0;
  const cublasStatus_t status = lt().MatmulAlgoGetHeuristic(
      handle, operation_.get(), first_.get(), second_.get(), result_.get(), result_.get(),
      Preference(p, workspace_bytes), count, found.data(), &found_count);
  std::vector<GemmCandidate> candidates;
  for (int i = 0; i < found_count; ++i) {
    if (found[i].state == CUBLAS_STATUS_SUCCESS) candidates.push_back(candidate_of(found[i]));
  }
  candidates = within(std::move(candidates), workspace_bytes);
  if (status != CUBLAS_STATUS_SUCCESS || candidates.empty()) {
    fail_machine("cuBLASLt has no algorithm ({}) for {} → {}, m {}, n {}, k {}, lda {}, ldb {}, ldc {}",
                 lt().GetStatusString(status), name_of(p.input), name_of(p.output), p.m, p.n, p.k, p.lda,
                 p.ldb, p.ldc);
  }
  return candidates;
}

bool Product::accepts(cublasLtHandle_t handle, const GemmAlgorithm& algorithm,
                      int64_t workspace_bytes) const {
  const cublasLtMatmulAlgo_t algo = native(algorithm);
  cublasLtMatmulHeuristicResult_t found{};
  const cublasStatus_t status = lt().MatmulAlgoCheck(handle, operation_.get(), first_.get(), second_.get(),
                                                     result_.get(), result_.get(), &algo, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found.state != CUBLAS_STATUS_SUCCESS) return false;
  return static_cast<int64_t>(found.workspaceSize) <= workspace_bytes;
}

cublasStatus_t Product::run(cublasLtHandle_t handle, cudaStream_t stream, const GemmAlgorithm& algorithm,
                            const Operands& operands, const Workspace& workspace) const {
  const cublasLtMatmulAlgo_t algo = native(algorithm);
  return lt().Matmul(handle, operation_.get(), &problem_.alpha, operands.b, first_.get(), operands.a,
                     second_.get(), &problem_.beta, operands.c, result_.get(), operands.c, result_.get(),
                     &algo, workspace.data, static_cast<size_t>(workspace.bytes), stream);
}

}  // namespace tang
