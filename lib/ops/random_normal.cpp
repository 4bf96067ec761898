// The registration of the random normals, and their CUDA implementation.
#include "lib/ops/random_normal.h"

#include "kernels/normal.h"

namespace tang {

namespace {

OpSpec spec() {
  using A = RandomNormal;
  return {
      .name = "random_normal",
      .about = "y[i] = std * normal i of a counter's stream: Philox, then Box-Muller in f64",
      .dims = {{"N", "count", 67108864}},
      .operands = {out("y", &A::y, "N", Rule::f32)},
      .scalars = {scalar("std", &A::std, {1, 0.02}), scalar("seed", &A::seed, {0, 20}),
                  scalar("stream", &A::stream, {0, 0x1p40})},
      .cases = {"N=1", "N=2", "N=7", "N=33", "N=1023 seed=-1", "N=4097", "N=70001 stream=1099511627781"},
      .reference = random_normal_reference,
      .impls = {cpu("cpu", random_normal_cpu), cuda("cuda", random_normal_cuda)},
      .modes = {Dtype::f32},
  };
}

}  // namespace

const Op<RandomNormal> random_normal{spec()};

std::function<void()> random_normal_cuda(CudaDevice& device, const RandomNormal& a) {
  constexpr int64_t threads = 256;
  const RandomNormalParams params{.y = a.y.as<float>(),
                                  .count = a.y.size(),
                                  .seed = static_cast<uint64_t>(a.seed),
                                  .stream = static_cast<uint64_t>(a.stream),
                                  .std = static_cast<double>(a.std)};
  const int64_t pairs = (params.count + 1) / 2;
  return device.bind(
      device.kernel({.source = "normal.cu", .entry = "random_normal", .param_bytes = sizeof params}),
      {.grid = {(pairs + threads - 1) / threads}, .block = {threads}}, params);
}

}  // namespace tang
