// Datasheet peaks by GPU name, for MFU. A chip that is not in the table has none: never a guess.
#pragma once

#include <optional>
#include <string_view>

namespace tang {

/// Dense peaks in TFLOP/s at the datasheet's boost clock, f32 accumulation.
struct GpuPeak {
  double bf16 = 0, tf32 = 0, f32 = 0;
};

/// By the driver's own name, such as "NVIDIA H100 80GB HBM3".
std::optional<GpuPeak> gpu_peak(std::string_view name);

}  // namespace tang
