#include "lib/cuda/cuda_open.h"

#include <cuda_runtime_api.h>

#include "lib/base/error.h"
#include "lib/base/spans.h"
#include "lib/cuda/cuda_try.h"
#include "lib/cuda/native_device.h"
#include "lib/cuda/nvrtc.h"

namespace tang {

namespace {

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

/// The CUDA version that the driver supports, 0 without a driver.
int driver_version() {
  int version = 0;
  CUDA_TRY(cudaDriverGetVersion(&version));
  return version;
}

std::string hardware_summary() {
  const int driver = driver_version();
  if (driver == 0) return "no NVIDIA driver";
  require_driver(driver, CUDART_VERSION);
  const int count = cuda_device_count();
  if (count == 0) return fmt::format("driver for CUDA {}, no GPU", version_text(driver));
  cudaDeviceProp properties{};
  CUDA_TRY(cudaGetDeviceProperties(&properties, 0));
  return fmt::format("driver for CUDA {}, {} × {} ({})", version_text(driver), count, properties.name,
                     architecture_of(10 * properties.major + properties.minor));
}

}  // namespace

void require_driver(int driver, int runtime) {
  if (driver == 0 || driver / 1000 >= runtime / 1000) return;
  fail_machine(
      "the NVIDIA driver is too old: it supports CUDA {}, this program needs CUDA {}.0; update the driver, "
      "build "
      "with an older toolkit, or ask for the CPU by name",
      version_text(driver), runtime / 1000);
}

int cuda_device_count() {
  const int driver = driver_version();
  if (driver == 0) return 0;
  require_driver(driver, CUDART_VERSION);
  const Span span("CUDA driver");
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorNoDevice) {
    cudaGetLastError();
    return 0;
  }
  CUDA_TRY(code);
  return count;
}

std::unique_ptr<CudaDevice> open_cuda_device(int ordinal) {
  if (driver_version() == 0) fail_machine("there is no NVIDIA driver on this machine: use device cpu");
  const int count = cuda_device_count();
  if (ordinal < 0 || ordinal >= count) {
    fail_machine("there is no CUDA device {}: this machine shows {}{}", ordinal, count,
                 count == 0 ? "; use device cpu, or check CUDA_VISIBLE_DEVICES" : "");
  }
  return std::make_unique<NativeDevice>(ordinal);
}

std::string cuda_summary() {
  const std::string toolkit = fmt::format("CUDA {}", version_text(CUDART_VERSION));
  std::string compiler, hardware;
  try {
    compiler = fmt::format("NVRTC {}", nvrtc_version());
  } catch (const Error&) {
    compiler = "NVRTC missing";
  }
  try {
    hardware = hardware_summary();
  } catch (const Error& error) {  // a summary never fails
    hardware = error.what();
  }
  return fmt::format("{}, {}, {}", toolkit, compiler, hardware);
}

}  // namespace tang
