// Parity: every implementation × dtype × case against the f64 reference, and CUDA against the CPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/check/verdict.h"

namespace tang {

struct ParityOptions {
  std::vector<std::string> ops;  // op or family names; empty: all
  std::string device = "all";    // all, cpu, cuda, cuda:N
  std::string dtype = "all";     // f32, bf16, all
  std::string impl = "all";
  std::string only_case;  // "": the registered cases
  bool small = false;     // only the registered cases of at most 2^25 operations and 2^22 bytes
  bool quiet = false;     // print failures only
};

/// Prints one line per op, implementation and mode, each failure with the command that repeats it, and what
/// was skipped. The caller closes with the counts.
Counts check_parity(const ParityOptions& options);

}  // namespace tang
