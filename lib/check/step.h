// The whole model: gradients of every tensor and a ten-step loss curve, CPU f32 against the other precisions
// and devices.
#pragma once

#include <string>

#include "lib/check/verdict.h"

namespace tang {

struct StepCheckOptions {
  std::string device = "all";  // all, cpu, cuda, cuda:N
  int64_t steps = 10;          // of the loss curve
};

/// Trains a small model (grouped heads, ragged length, padded vocabulary) on the CPU in f32 and, with the
/// same weights and batches, in every other device and precision asked for. One case per gradient tensor, one
/// per loss of the curve.
///   gradient: |g − g_cpu| / |g_cpu| ≤ 4·u·sqrt(12·L)   bf16: 12 roundings a block, each a random walk step
///             |g − g_cpu| / |g_cpu| ≤ 4·u·sqrt(12·L·K) f32, where sums of up to K terms are what rounds
///             (tf32: u = 2^-11, no K)
///   loss:     within 5e-6 of the CPU's in f32, 1e-2 in bf16, 1e-3 in tf32, relative
Counts check_step(const StepCheckOptions& options);

}  // namespace tang
