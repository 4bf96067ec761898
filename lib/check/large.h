// Large: what an op does past 2^31 elements, where an offset of 32 bits wraps.
#pragma once

#include <string>
#include <vector>

#include "lib/check/verdict.h"
#include "lib/ops/case.h"

namespace tang {

struct LargeOptions {
  std::vector<std::string> ops;  // empty: all that register such a case
  std::string device = "cuda";
  std::string dtype = "all";
  std::string impl = "all";
  std::string only_case;  // "": the registered ones
};

/// What came of one implementation on one large case.
struct LargeVerdict {
  std::string skipped;   // why it did not run, or ""
  std::string failure;   // "" when it passed
  double worst = 0;      // largest error of the entries looked at, as a fraction of its tolerance
  size_t looked_at = 0;  // entries
};

/// Runs the case on inputs made on the device, then entries of its first dimension (rows, sequences) by
/// themselves: the first, the last, those where an operand passes 2^31 and 2^32 elements and bytes, and some
/// more. Those entries as a small case of their own must pass parity against the f64 reference and have the
/// bits that they have in the large run; so must the last entry alone; and where the case lays an operand's
/// rows apart, the whole run on a packed copy. Outputs without that dimension are not judged. A case that
/// does not fit the device's memory is skipped.
LargeVerdict examine_large(Device& device, const Case& plan, const Impl& impl);

/// Each registered large case in each mode and implementation, a line each. A machine error when none runs.
Counts check_large(const LargeOptions& options);

}  // namespace tang
