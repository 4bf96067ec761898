#include "lib/bench/peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "lib/base/rng.h"
#include "lib/device/cpu_device.h"
#include "lib/device/gpu_peaks.h"

namespace tang {

namespace {

double copy_bandwidth(Device& device) {
  constexpr int64_t bytes = int64_t{1} << 30;
  const Buffer from = device.allocate_zeroed(bytes), to = device.allocate(bytes);
  const Timing timing = Timer(device).measure([&] { device.copy(to.data(), from.data(), bytes); });
  return 2 * static_cast<double>(bytes) / timing.best_ms / 1e6;
}

double triad_bandwidth(CpuDevice& device) {
  constexpr int64_t count = int64_t{1} << 24;  // 64 MiB each: past any cache that a core has to itself
  const std::vector<float> b(count, 1.0f), c(count, 2.0f);
  std::vector<float> a(count);
  const Timing timing = Timer(device).measure([&] {
    device.parallel_for(count, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) a[i] = b[i] + 3.0f * c[i];
    });
  });
  return 3 * 4 * static_cast<double>(count) / timing.best_ms / 1e6;
}

/// Numbers as weights have them: zeros would draw less power and clock higher.
Buffer random_matrix(Device& device, int64_t elements, Dtype dtype) {
  const Rng rng(7);
  constexpr int64_t block = int64_t{1} << 18;
  std::vector<float> wide(block);
  std::vector<bf16> narrow(block);
  for (int64_t i = 0; i < block; ++i) {
    wide[i] = static_cast<float>(rng.normal(static_cast<uint64_t>(i)));
    narrow[i] = bf16(wide[i]);
  }
  Buffer buffer = device.allocate(elements * size_of(dtype));
  const void* source = dtype == Dtype::bf16 ? static_cast<const void*>(narrow.data()) : wide.data();
  for (int64_t done = 0; done < elements; done += block) {
    device.upload(static_cast<char*>(buffer.data()) + done * size_of(dtype), source,
                  std::min(block, elements - done) * size_of(dtype));
  }
  device.synchronize();
  return buffer;
}

}  // namespace

double Peaks::bandwidth() {
  if (!bandwidth_) {
    bandwidth_ = device_.kind() == DeviceKind::cuda ? copy_bandwidth(device_)
                                                    : triad_bandwidth(static_cast<CpuDevice&>(device_));
  }
  return *bandwidth_;
}

double Peaks::measure_matmul(Dtype dtype, MathMode math) {
  const bool cuda = device_.kind() == DeviceKind::cuda;
  const int64_t n = cuda ? 8192 : 1024;
  const Buffer a = random_matrix(device_, n * n, dtype), b = random_matrix(device_, n * n, dtype);
  const Buffer c = device_.allocate(n * n * size_of(dtype));
  std::function<void()> run;
  if (cuda) {
    run = static_cast<CudaDevice&>(device_).gemm({.m = n,
                                                  .n = n,
                                                  .k = n,
                                                  .input = dtype,
                                                  .output = dtype,
                                                  .math = math,
                                                  .a = a.data(),
                                                  .lda = n,
                                                  .b = b.data(),
                                                  .ldb = n,
                                                  .c = c.data(),
                                                  .ldc = n});
  } else {
    const CpuGemm problem{.m = n,
                          .n = n,
                          .k = n,
                          .a = static_cast<const float*>(a.data()),
                          .lda = n,
                          .b = static_cast<const float*>(b.data()),
                          .ldb = n,
                          .c = static_cast<float*>(c.data()),
                          .ldc = n};
    run = [this, problem] { static_cast<CpuDevice&>(device_).gemm(problem); };
  }
  const double flops = 2 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  return flops / Timer(device_).measure(run).best_ms / 1e9;
}

double Peaks::matmul(Dtype dtype, MathMode math) {
  const bool cuda = device_.kind() == DeviceKind::cuda;
  if (!cuda) dtype = Dtype::f32, math = MathMode::strict;
  std::optional<double>& known = dtype == Dtype::bf16 ? bf16_ : math == MathMode::tf32 ? tf32_ : f32_;
  if (!known) known = measure_matmul(dtype, math);
  return *known;
}

double Peaks::roof_ms(const OpCall& call) {
  return std::max(call.flops / matmul(call.mode, call.math) / 1e9, call.bytes / bandwidth() / 1e6);
}

std::string Peaks::describe() {
  std::string text =
      fmt::format("{} ({}): memory {:.0f} GB/s", device_.caps().name, device_.caps().isa, bandwidth());
  if (device_.kind() == DeviceKind::cpu)
    return text + fmt::format(", matmul f32 {:.3f} TFLOP/s ({} threads)\n", matmul(Dtype::f32),
                              device_.caps().threads);
  text += fmt::format(", matmul bf16 {:.0f}, tf32 {:.0f}, f32 {:.1f} TFLOP/s measured\n", matmul(Dtype::bf16),
                      matmul(Dtype::f32, MathMode::tf32), matmul(Dtype::f32));
  const auto sheet = gpu_peak(device_.caps().name);
  return text + (sheet ? fmt::format("datasheet, dense: bf16 {:g}, tf32 {:g}, f32 {:g} TFLOP/s\n",
                                     sheet->bf16, sheet->tf32, sheet->f32)
                       : "no datasheet figure is known for this GPU: MFU is not shown\n");
}

}  // namespace tang
