// Expressions as CUDA text.
#pragma once

#include <span>
#include <string>

#include "lib/expr/expr.h"

namespace tang {

/// A device function `void name(float (&y)[outputs], const float (&x)[inputs])` that computes every output in
/// f32 with the accurate functions (expf, not __expf), and with sigmoid() of kernels/sigmoid.cuh, which is to
/// be included before. The text depends on the expressions alone.
std::string emit_cuda(std::span<const Expr> outputs, int64_t inputs, std::string_view name);

}  // namespace tang
