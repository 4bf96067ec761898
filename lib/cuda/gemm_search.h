// Tries a product's candidates on random operands: which give the same bits, and how fast each is.
#pragma once

#include <vector>

#include "lib/cuda/blas_library.h"

namespace tang {

class GemmSearch {
 public:
  /// Borrows all of them. Asks for its kernels at once, so that they compile behind what comes next.
  GemmSearch(CudaDevice& device, cudaStream_t stream, cublasLtHandle_t handle, Workspace workspace);

  /// The fastest of `candidates` with the bits of number `reference`, tried on operands of the product's own
  /// shape that it allocates for the time; some tens of milliseconds. Nothing when there is no memory for
  /// them.
  std::optional<size_t> run(const Product& product, std::span<const GemmCandidate> candidates,
                            size_t reference);

 private:
  struct Probe;
  std::vector<GemmTrial> compare(const Probe& probe, std::span<const GemmCandidate> candidates);
  void time(const Probe& probe, std::span<const GemmCandidate> candidates, std::vector<GemmTrial>& trials,
            size_t reference);
  bool multiply(const Probe& probe, const GemmCandidate& candidate);
  void fill(void* values, Dtype dtype, int64_t count, uint64_t seed);
  uint64_t digest(const Probe& probe);

  CudaDevice& device_;
  cudaStream_t stream_;
  cublasLtHandle_t handle_;
  Workspace workspace_;
  Kernel fill_f32_, fill_bf16_, digest_;
};

}  // namespace tang
