#include "lib/cuda/blas.h"

#include <cublasLt.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/spans.h"
#include "lib/cuda/toolkit_library.h"

namespace tang {

namespace {

struct CublasLt {
  ToolkitLibrary library{
      "NVIDIA's matrix library cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, library_folders()};
#define TANG_BLAS(call) \
  decltype(&cublasLt##call) call = library.function<decltype(&cublasLt##call)>("cublasLt" #call)
  TANG_BLAS(GetStatusString);
  TANG_BLAS(Create);
  TANG_BLAS(Destroy);
  TANG_BLAS(Matmul);
  TANG_BLAS(MatmulDescCreate);
  TANG_BLAS(MatmulDescDestroy);
  TANG_BLAS(MatmulDescSetAttribute);
  TANG_BLAS(MatrixLayoutCreate);
  TANG_BLAS(MatrixLayoutDestroy);
  TANG_BLAS(MatmulPreferenceCreate);
  TANG_BLAS(MatmulPreferenceDestroy);
  TANG_BLAS(MatmulPreferenceSetAttribute);
  TANG_BLAS(MatmulAlgoGetHeuristic);
#undef TANG_BLAS
};

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

cudaDataType_t data_type_of(Dtype dtype) { return dtype == Dtype::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

/// Descriptors of one product, freed with it.
struct Product {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  CudaGemm problem;
  bool fresh = true;  // not launched yet

  ~Product() {
    if (operation != nullptr) lt().MatmulDescDestroy(operation);
    for (cublasLtMatrixLayout_t layout : {first, second, result}) {
      if (layout != nullptr) lt().MatrixLayoutDestroy(layout);
    }
  }
};

template <class Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  require(lt().MatmulDescSetAttribute(operation, attribute, &value, sizeof value), "setting a product up");
}

template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  require(lt().MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
          "setting preferences");
}

/// cuBLAS counts columns first. A row-major matrix is its transpose there, so C = A·B becomes Cᵀ = Bᵀ·Aᵀ with
/// the operands swapped and nothing moved.
void describe_product(Product& product) {
  const CudaGemm& p = product.problem;
  const bool tf32 = p.math == MathMode::tf32 && p.input == Dtype::f32;
  require(lt().MatmulDescCreate(&product.operation, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                CUDA_R_32F),
          "describing a product");
  set(product.operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product.operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  const auto layout = [](cublasLtMatrixLayout_t& target, Dtype dtype, int64_t rows, int64_t columns,
                         int64_t ld) {
    require(lt().MatrixLayoutCreate(&target, data_type_of(dtype), rows, columns, ld), "describing a matrix");
  };
  layout(product.first, p.input, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k, p.ldb);
  layout(product.second, p.input, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m, p.lda);
  layout(product.result, p.output, p.n, p.m, p.ldc);
}

/// Largest power of two, up to 256, that divides the address.
uint32_t alignment_of(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address) | 256;
  return static_cast<uint32_t>(value & -value);
}

void choose_algorithm(cublasLtHandle_t handle, Product& product) {
  cublasLtMatmulPreference_t preference = nullptr;
  require(lt().MatmulPreferenceCreate(&preference), "creating preferences");
  const struct Guard {
    cublasLtMatmulPreference_t preference;
    ~Guard() { lt().MatmulPreferenceDestroy(preference); }
  } guard{preference};
  const CudaGemm& p = product.problem;
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(Blas::workspace_bytes));
  // Partial sums only in f32: the other schemes round them to the output's type or add them in no fixed
  // order.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.c));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      lt().MatmulAlgoGetHeuristic(handle, product.operation, product.first, product.second, product.result,
                                  product.result, preference, 1, &found, &count);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0 || found.state != CUBLAS_STATUS_SUCCESS) {
    fail_machine("cuBLASLt has no algorithm ({}) for {} → {}, m {}, n {}, k {}, lda {}, ldb {}, ldc {}",
                 lt().GetStatusString(status), name_of(p.input), name_of(p.output), p.m, p.n, p.k, p.lda,
                 p.ldb, p.ldc);
  }
  product.algorithm = found.algo;
}

}  // namespace

struct Blas::Handle {
  cublasLtHandle_t handle = nullptr;
  Handle() {
    const Span span("cublasLtCreate");
    require(lt().Create(&handle), "cublasLtCreate");
  }
  ~Handle() { lt().Destroy(handle); }
};

Blas::Blas(cudaStream_t stream, void* workspace)
    : handle_(std::make_unique<Handle>()), stream_(stream), workspace_(workspace) {}

Blas::~Blas() = default;

std::function<void()> Blas::prepare(const CudaGemm& problem) {
  const auto product = std::make_shared<Product>();
  product->problem = problem;
  {
    const Span span("choice of algorithm");
    describe_product(*product);
    choose_algorithm(handle_->handle, *product);
  }
  return [product, handle = handle_->handle, stream = stream_, workspace = workspace_] {
    const CudaGemm& p = product->problem;
    std::optional<Span> first;  // it loads the library's kernel
    if (std::exchange(product->fresh, false)) first.emplace("first launches of products");
    require(lt().Matmul(handle, product->operation, &p.alpha, p.b, product->first, p.a, product->second,
                        &p.beta, p.c, product->result, p.c, product->result, &product->algorithm, workspace,
                        workspace_bytes, stream),
            "cublasLtMatmul");
  };
}

}  // namespace tang
