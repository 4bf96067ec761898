#include "lib/cuda/cuda_try.h"

#include <string_view>

#include "lib/base/error.h"

namespace tang {

void fail_cuda(cudaError_t code, const char* expression, const char* file, int line) {
  cudaGetLastError();  // an error that is not sticky must not surface again at the next call
  std::string_view place = file;
  if (const auto at = place.rfind("lib/cuda/"); at != std::string_view::npos) place.remove_prefix(at);
  fail_machine("CUDA: {} ({}) from {} at {}:{}", cudaGetErrorString(code), cudaGetErrorName(code), expression,
               place, line);
}

}  // namespace tang
