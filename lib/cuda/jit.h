// From a kernel's text to a binary for one architecture, with what the assembler said about it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/cuda/jit_cache.h"

namespace tang {

/// The kernels' texts by path below kernels/.
class SourceSet {
 public:
  explicit SourceSet(std::vector<std::pair<std::string, std::string>> files) : files_(std::move(files)) {}
  /// Those built into the program, or the files of TANG_KERNEL_DIR. Read once.
  static const SourceSet& installed();

  /// A check error when there is no such file.
  const std::string& text(const std::string& name) const;
  /// Every file that `text` includes, directly or not, in order of first mention. Names are as written
  /// between the quotes: paths below kernels/.
  std::vector<std::pair<std::string, std::string>> includes_in(const std::string& text) const;
  std::vector<std::pair<std::string, std::string>> includes_of(const std::string& name) const {
    return includes_in(text(name));
  }

 private:
  const std::string* find(const std::string& name) const;
  std::vector<std::pair<std::string, std::string>> files_;
};

struct JitRequest {
  std::string source;                                          // "rmsnorm.cu"
  std::vector<std::pair<std::string, std::string>> constants;  // {"TANG_T", "bf16"}
  std::string architecture;                                    // "sm_90a"
  std::string text = {};                                       // generated source, instead of the file's
};

/// One __global__ function of a source.
struct JitEntry {
  std::string name;
  int registers = 0;
  int64_t spill_bytes = 0, stack_bytes = 0, static_shared_bytes = 0;  // spill: stores and loads
  int parameters = 0;
  int64_t param_bytes = 0;
};

struct JitResult {
  std::string cubin;
  std::vector<JitEntry> entries;
  std::vector<std::string> warnings;  // the assembler's C75xx lines
  double seconds = 0;                 // of compilation; 0 when the cache had it
};

/// "sm_90a" for compute capability 90: an "a" target where the chip has one that kernels here may use.
std::string architecture_of(int compute_capability);

/// "TANG_T=bf16 TANG_D=64".
std::string describe(const std::vector<std::pair<std::string, std::string>>& constants);

/// Compiles, or finds the result in `cache` under the text of source and includes, options and the compiler's
/// version. A check error holds the compiler's first error line; the whole log is left in a file that it
/// names.
JitResult jit_compile(const SourceSet& sources, const JitRequest& request, const JitCache& cache);

}  // namespace tang
