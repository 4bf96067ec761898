#include <cmath>
#include <numbers>

#include "lib/base/rng.h"
#include "lib/ops/random_normal.h"

namespace tang {

/// Box-Muller by the C library's functions, from the generator's words (which a test holds against their
/// authors' answers).
void random_normal_reference(Ref& r) {
  const Rng rng(static_cast<uint64_t>(r["seed"]), static_cast<uint64_t>(r["stream"]));
  RefOutput& y = r.out("y");
  for (size_t i = 0; i < y.value.size(); ++i) {
    const uint64_t first = i / 2 * 2;
    const double radius = std::sqrt(-2.0 * std::log(1.0 - rng.uniform(first)));
    const double angle = 2.0 * std::numbers::pi * rng.uniform(first + 1);
    y.value[i] = r.scalar("std") * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    y.magnitude[i] = std::abs(y.value[i]);
  }
}

}  // namespace tang
