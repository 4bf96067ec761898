// The CPU's own GEMM: what CpuDevice::gemm runs where the build has no oneDNN, or under TANG_GEMM=portable.
#pragma once

#include "lib/device/cpu_device.h"

namespace tang {

/// Blocked f32 GEMM on packed panels (Goto and van de Geijn, 2008). Each element is summed over k in order,
/// a block of 256 at a time, so its bits do not depend on the thread count.
void gemm_portable(const CpuDevice& device, const CpuGemm& problem);

}  // namespace tang
