// The body of every main(): the one place that catches exceptions and turns them into exit codes.
#pragma once

#include <functional>

namespace tang {

/// Runs `body` and returns its exit code. An exception becomes one line on stderr, "PROGRAM: error: …", and
/// an exit code: Error has its own, out of host memory is 3, a refused file operation 2 (3 when the disk is
/// full), anything else 1. Never throws.
int run_main(const std::function<int()>& body) noexcept;

}  // namespace tang
