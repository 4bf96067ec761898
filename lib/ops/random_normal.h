// Normals drawn where they are wanted: initial weights. The same bits on every device.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct RandomNormal {
  View y;            // f32 [N]
  float std = 1;     // y[i] = std · Rng(seed, stream).normal(i)
  int64_t seed = 0;  // 64 bits, as a whole number
  int64_t stream = 0;
};

extern const Op<RandomNormal> random_normal;

// The implementations, registered in random_normal.cpp.
void random_normal_reference(Ref& r);
void random_normal_cpu(CpuDevice& device, const RandomNormal& a);
std::function<void()> random_normal_cuda(CudaDevice& device, const RandomNormal& a);

}  // namespace tang
