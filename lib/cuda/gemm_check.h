// What every CUDA GEMM asks of its arguments, with hardware or without.
#pragma once

#include "lib/device/cuda_device.h"

namespace tang {

/// An input error that names the sizes when a size is negative, a row is longer than its stride or a dtype is
/// not f32 → f32, bf16 → bf16 or bf16 → f32.
void check_gemm(const CudaGemm& problem);

}  // namespace tang
