// The check around every CUDA call. Only lib/cuda may include this.
#pragma once

#include <cuda_runtime_api.h>

namespace tang {

/// Throws a machine error that names the call, its place and CUDA's reason; clears the runtime's last error.
[[noreturn]] void fail_cuda(cudaError_t code, const char* expression, const char* file, int line);

}  // namespace tang

/// A machine error unless `expression` is cudaSuccess.
#define CUDA_TRY(expression)                                             \
  do {                                                                   \
    const cudaError_t cuda_try_code = (expression);                      \
    if (cuda_try_code != cudaSuccess) [[unlikely]]                       \
      ::tang::fail_cuda(cuda_try_code, #expression, __FILE__, __LINE__); \
  } while (false)
