// How a check judges: tolerance per element, counts, and the line every check closes with.
#pragma once

#include <span>
#include <string>

#include "lib/ops/reference.h"

namespace tang {

/// What |got − value[index]| may be: the formula in reference.h, plus the smallest normal f32 for what
/// underflows.
double tolerance(const RefOutput& reference, size_t index, Dtype stored, Dtype mode);

/// The element of an output that is worst relative to its tolerance.
struct Comparison {
  double fraction = 0;  // |got − wanted| / allowed; infinite for a NaN where none belongs
  double error = 0;     // the largest |got − wanted| of any element
  int64_t index = -1, wrong = 0;
  double got = 0, wanted = 0, allowed = 0;
};
/// NaN agrees with NaN only, an infinity with the same infinity or a value too large for `stored`.
Comparison compare(std::span<const double> got, const RefOutput& reference, Dtype stored, Dtype mode);

/// Cases of a check. A run without any is a failure: nothing was proved.
struct Counts {
  int64_t passed = 0, failed = 0, skipped = 0;
  Counts& operator+=(const Counts& other);
  std::string line() const;  // "N passed, N failed, N skipped"
  /// Prints the line; 0, or 1 when something failed or nothing ran.
  int close() const;
};

}  // namespace tang
