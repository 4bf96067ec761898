// The roofs that this device really reaches, measured once per process: the best run, since a roof is a best.
#pragma once

#include <optional>
#include <string>

#include "lib/bench/timer.h"
#include "lib/ops/op.h"

namespace tang {

class Peaks {
 public:
  explicit Peaks(Device& device) : device_(device) {}

  /// GB/s of a large copy, both directions counted (CPU: of the triad a = b + s·c).
  double bandwidth();
  /// TFLOP/s of a large square GEMM in that dtype. The CPU computes bf16 in f32: one roof.
  double matmul(Dtype dtype, MathMode math = MathMode::strict);

  /// The least time that the call's FLOPs and bytes could take, in ms: the slower of the two roofs.
  double roof_ms(const OpCall& call);

  /// What tang-bench peaks prints, with the datasheet's figures where the GPU is known.
  std::string describe();

 private:
  double measure_matmul(Dtype dtype, MathMode math);

  Device& device_;
  std::optional<double> bandwidth_, f32_, bf16_, tf32_;
};

}  // namespace tang
