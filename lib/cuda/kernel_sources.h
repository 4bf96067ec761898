// The text of kernels/, built into the library: cmake/embed_kernels.cmake writes the definition.
#pragma once

#include <string_view>
#include <vector>

namespace tang {

struct KernelSource {
  std::string_view name;  // path below kernels/: "rmsnorm.cu", "ptx/mma.cuh"
  std::string_view text;
};

const std::vector<KernelSource>& embedded_kernel_sources();

}  // namespace tang
