// The compile check: every CUDA kernel that any registered case would launch, for any architecture, without a
// GPU.
#pragma once

#include <string>
#include <vector>

#include "lib/check/verdict.h"

namespace tang {

struct CompileOptions {
  std::vector<std::string> ops;  // empty: all
  std::string architectures = "sm_80,sm_90a,sm_100a";
};

/// Prints registers, shared memory, spills and warnings of each kernel. A kernel fails when it does not
/// compile, when ptxas says that it serialised wgmma (C7510, C7512, C7520), or when it spills on sm_90a. A
/// build or machine without the compiler is a machine error.
Counts check_compile(const CompileOptions& options);

}  // namespace tang
