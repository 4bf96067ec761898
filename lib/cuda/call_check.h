// What launches and products ask of their arguments, with hardware or without.
#pragma once

#include "lib/device/cuda_device.h"

namespace tang {

/// "kernel rmsnorm_forward of rmsnorm.cu (TANG_T=bf16)".
std::string title(const KernelSpec& spec);

/// "4×1×1".
std::string describe(const Dim3& dim);

/// False for an empty grid. A check error when the sizes are beyond any device's or not those that the kernel
/// was prepared for.
bool check_launch(const KernelSpec& spec, const LaunchShape& shape, int64_t param_bytes);

/// A check error when the kernel's blocks need more shared memory (static and dynamic) than the device has.
void check_shared(const KernelSpec& spec, int64_t static_bytes, const DeviceCaps& caps);

/// An input error for impossible sizes, or types other than f32 → f32, bf16 → bf16 and bf16 → f32.
void check_gemm(const CudaGemm& problem);

}  // namespace tang
