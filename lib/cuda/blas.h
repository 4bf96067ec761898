// Matrix products through cuBLASLt: which algorithm runs each, and the call that runs it.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <memory>

#include "lib/cuda/gemm_choice.h"

namespace tang {

class Product;

class Blas {
 public:
  static constexpr int64_t workspace_bytes = int64_t{64} << 20;

  /// Multiplies on `stream` of `device`; `workspace` holds workspace_bytes. All of them outlive this.
  Blas(CudaDevice& device, cudaStream_t stream, void* workspace, JitCache cache);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  /// Picks an algorithm for `problem`, with m, n, k > 0. The bits of the product are the same for the same
  /// GPU, library version and problem; see gemm_choice.h. A large product is searched for the fastest
  /// algorithm with these bits, once: the cache keeps what was found. Split sums are kept in f32 and added in
  /// a fixed order. The returned call shares nothing that moves and must not outlive this.
  std::function<void()> prepare(const CudaGemm& problem);

 private:
  struct Library;
  GemmAlgorithm choose(const Product& product, const Digest& key);
  std::optional<GemmAlgorithm> kept(const Product& product, const Digest& key) const;

  CudaDevice& device_;
  cudaStream_t stream_;
  void* workspace_;
  JitCache cache_;
  GemmPlace place_;
  bool searches_ = true;  // TANG_GEMM_SEARCH=0: the reference, untimed, and the cache is left alone
  std::map<std::string, GemmAlgorithm> chosen_;  // by key
  std::unique_ptr<Library> library_;
};

}  // namespace tang
