// The gradient check of the references: the backward's f64 formula against central differences of the
// forward's. It judges no implementation; parity does, by these references.
#pragma once

#include <string>
#include <vector>

#include "lib/check/verdict.h"
#include "lib/ops/op.h"

namespace tang {

/// For every registered backward among `ops` (names; empty: all): for each input with a gradient, the slope
/// of L = sum of upstream · output along a random direction against the backward's inner product with it.
/// Method: five-point central difference, so the error is O(h^4) + rounding / h.
Counts check_gradients(const std::vector<std::string>& ops);

/// The same for one backward, registered or not.
Counts check_gradient(const OpBase& backward);

}  // namespace tang
