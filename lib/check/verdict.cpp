#include "lib/check/verdict.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "lib/base/error.h"
#include "lib/ops/case.h"

namespace tang {

double tolerance(const RefOutput& reference, size_t index, Dtype stored, Dtype mode) {
  const double m = reference.magnitude[index];
  const double value = std::abs(reference.value[index]);
  return unit_roundoff(stored) * (value + reference.stored_roundings * (value + m)) +
         4 * unit_roundoff(Dtype::f32) * std::sqrt(reference.terms + 4) * m +
         reference.extra_roundings * unit_roundoff(mode) * m + reference.product_roundoff * m +
         static_cast<double>(std::numeric_limits<float>::min());
}

Comparison compare(std::span<const double> got, const RefOutput& reference, Dtype stored, Dtype mode) {
  if (got.size() != reference.value.size())
    fail_check("an output has {} elements, its reference {}", got.size(), reference.value.size());
  Comparison worst;
  for (size_t i = 0; i < got.size(); ++i) {
    const double wanted = reference.value[i], allowed = tolerance(reference, i, stored, mode);
    const double error = std::abs(got[i] - wanted);
    double fraction = error / allowed;
    if (std::isnan(wanted) || std::isnan(got[i])) {
      fraction = std::isnan(wanted) && std::isnan(got[i]) ? 0 : std::numeric_limits<double>::infinity();
    } else if (std::isinf(wanted) || std::isinf(got[i])) {
      const bool same = got[i] == wanted || got[i] == rounded(wanted, stored);
      fraction = same ? 0 : std::numeric_limits<double>::infinity();
    } else {
      worst.error = std::max(worst.error, error);
    }
    if (!(fraction <= 1)) ++worst.wrong;
    if (!(fraction <= worst.fraction) || worst.index < 0) {
      worst.fraction = fraction;
      worst.index = static_cast<int64_t>(i);
      worst.got = got[i], worst.wanted = wanted, worst.allowed = allowed;
    }
  }
  return worst;
}

Counts& Counts::operator+=(const Counts& other) {
  passed += other.passed, failed += other.failed, skipped += other.skipped;
  return *this;
}

std::string Counts::line() const {
  return fmt::format("{} passed, {} failed, {} skipped", passed, failed, skipped);
}

int Counts::close() const {
  if (passed + failed == 0) std::puts("nothing was checked");
  std::puts(line().c_str());
  return failed > 0 || passed == 0 ? 1 : 0;
}

}  // namespace tang
