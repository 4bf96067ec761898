#include <doctest/doctest.h>

#include "lib/device/cuda_device.h"
#include "lib/ops/traced.h"

namespace tang {

TEST_CASE("compile-only device: every operation's CUDA text compiles, one kernel for equal expressions") {
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100a"}) {
    const auto device = open_compile_only_device(architecture);
    const Buffer memory = device->allocate(4096);
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      const View x = memory.view(dtype, {4, 32}), row = memory.view(dtype, {32}),
                 one = memory.view(dtype, {1});
      const auto everything = [](Expr a, Expr b, Expr c) {
        const Expr whole = min(a, b) / max(b, c) + exp(a) * log(abs(b)) - pow(a, c);
        const Expr waves = sin(a) + cos(b) * tanh(c) - sigmoid(a) * erf(b) + sqrt(c) * rsqrt(a);
        return select(a < b, whole, -waves) * (b <= c) +
               equal(a, c) * std::numeric_limits<double>::infinity();
      };
      for (int repeat = 0; repeat < 2; ++repeat) prepare_elementwise(*device, {x, row, one}, x, everything)();
    }
    const auto compiled = device->compiled();
    REQUIRE(compiled.size() == 2);
    for (const CompiledKernel& kernel : compiled) {
      CHECK(kernel.entry == "elementwise");
      CHECK(kernel.warnings.empty());
      CHECK(kernel.spill_bytes == 0);
    }
  }
}

}  // namespace tang
