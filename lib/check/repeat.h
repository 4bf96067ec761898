// Repeat: two runs with the same inputs give the same bits, at sizes that fill the device.
#pragma once

#include <string>
#include <vector>

#include "lib/check/verdict.h"

namespace tang {

struct RepeatOptions {
  std::vector<std::string> ops;  // empty: all
  std::string device = "all";
  std::string dtype = "all";
  std::string only_case;  // "": the sizes below
  int64_t runs = 5;
};

/// Each implementation and mode at the op's bench dimensions on a GPU, at its largest registered case on the
/// CPU.
Counts check_repeat(const RepeatOptions& options);

}  // namespace tang
