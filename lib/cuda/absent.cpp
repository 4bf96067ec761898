// Linked in place of the CUDA room when the build found no toolkit.
#include "lib/base/error.h"
#include "lib/device/cuda_device.h"

namespace tang {

namespace {
[[noreturn]] void refuse() {
  fail_machine(
      "this build has no CUDA back end: install a CUDA toolkit of 12.8 or newer and configure again");
}
}  // namespace

std::unique_ptr<CudaDevice> open_cuda_device(int) { refuse(); }
std::unique_ptr<CompileOnlyDevice> open_compile_only_device(const std::string&) { refuse(); }
int cuda_device_count() { return 0; }
std::string cuda_summary() { return "built without CUDA"; }

}  // namespace tang
