// Tensor maps: checked here in words before the driver, which only says "invalid value", sees them.
#pragma once

#include "lib/device/cuda_device.h"

namespace tang {

/// Refuses what the hardware cannot describe, by name: an input error.
void check_tensor_map(const TensorMapSpec& spec);

/// Asks the driver for the map.
TensorMap encode_tensor_map(const TensorMapSpec& spec);

}  // namespace tang
