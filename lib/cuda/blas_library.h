// cuBLASLt's functions, opened at run time, and a product as it wants it described. For lib/cuda/blas*.cpp
// and gemm_search.cpp.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <type_traits>
#include <vector>

#include "lib/cuda/gemm_choice.h"
#include "lib/cuda/toolkit_library.h"
#include "lib/device/cuda_device.h"

namespace tang {

struct CublasLt {
  ToolkitLibrary library{
      "NVIDIA's matrix library cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, library_folders()};
#define TANG_BLAS(call) \
  decltype(&cublasLt##call) call = library.function<decltype(&cublasLt##call)>("cublasLt" #call)
  TANG_BLAS(GetVersion);
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
  TANG_BLAS(MatmulAlgoCheck);
  TANG_BLAS(MatmulAlgoConfigGetAttribute);
#undef TANG_BLAS
};

/// A machine error where there is none.
const CublasLt& lt();

/// A machine error that says `what`, unless the call succeeded.
void require(cublasStatus_t status, const char* what);

/// The library's handle for the current device.
class BlasHandle {
 public:
  BlasHandle();
  ~BlasHandle();
  BlasHandle(const BlasHandle&) = delete;
  BlasHandle& operator=(const BlasHandle&) = delete;
  operator cublasLtHandle_t() const { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

struct Operands {
  const void *a, *b;
  void* c;
};

struct Workspace {
  void* data;
  int64_t bytes;
};

/// One product's descriptors.
class Product {
 public:
  explicit Product(const CudaGemm& problem);

  /// What the library proposes within `workspace_bytes`, best first by its own estimate, at most `count`. A
  /// machine error when it proposes nothing.
  std::vector<GemmCandidate> candidates(cublasLtHandle_t handle, int64_t workspace_bytes, int count) const;
  /// True when the library would run `algorithm` for this product within `workspace_bytes`.
  bool accepts(cublasLtHandle_t handle, const GemmAlgorithm& algorithm, int64_t workspace_bytes) const;
  cublasStatus_t run(cublasLtHandle_t handle, cudaStream_t stream, const GemmAlgorithm& algorithm,
                     const Operands& operands, const Workspace& workspace) const;

  const CudaGemm& problem() const { return problem_; }

 private:
  struct Free {
    void operator()(cublasLtMatmulDesc_t operation) const { lt().MatmulDescDestroy(operation); }
    void operator()(cublasLtMatrixLayout_t layout) const { lt().MatrixLayoutDestroy(layout); }
  };
  using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, Free>;
  static Layout layout(Dtype dtype, int64_t rows, int64_t columns, int64_t ld);

  CudaGemm problem_;
  std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, Free> operation_;
  Layout first_, second_, result_;
};

}  // namespace tang
