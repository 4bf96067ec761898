// cuBLASLt, opened at run time.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "lib/device/cuda_device.h"

namespace tang {

class Blas {
 public:
  static constexpr int64_t workspace_bytes = int64_t{64} << 20;

  /// Multiplies on `stream`; `workspace` holds workspace_bytes and outlives this.
  Blas(cudaStream_t stream, void* workspace);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  /// Picks the library's first algorithm for `problem`, with m, n, k > 0: the same for the same GPU, version
  /// and problem. Split sums are kept in f32 and added in a fixed order. The returned call shares nothing
  /// that moves and must not outlive this.
  std::function<void()> prepare(const CudaGemm& problem);

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
  cudaStream_t stream_;
  void* workspace_;
};

}  // namespace tang
