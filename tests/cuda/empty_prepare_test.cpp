#include <doctest/doctest.h>

#include "lib/device/cuda_device.h"
#include "tests/empty_cases.h"

namespace tang {

TEST_CASE("cuda: with any dimension at zero an op's kernels are refused or launched") {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    const auto device = open_compile_only_device(architecture);
    const Buffer memory = device->allocate(4096);
    for (const Case& plan : empty_cases()) {
      INFO(plan.op().name() << " " << plan.text());
      for (const Impl& impl : plan.op().spec().impls) {
        const auto args = plan.make_args(memory.data());
        if (impl.kind != DeviceKind::cuda || !impl.supports(device->caps(), args.get()).empty()) continue;
        plan.op().prepare_erased(*device, args.get(), impl.name);
      }
    }
  }
}

}  // namespace tang
