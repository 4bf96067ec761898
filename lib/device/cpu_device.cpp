#include "lib/device/cpu_device.h"

#include <omp.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/device/simd.h"

namespace tang {

namespace {

using Clock = std::chrono::steady_clock;

/// CPUs that a container's quota allows, rounded up; `fallback` where there is no quota.
int quota_cpus(int fallback) {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return fallback;  // "max 100000"
  return std::max(1, static_cast<int>((quota + period - 1) / period));
}

/// Asked once, before any omp_set_num_threads: OMP_NUM_THREADS, else affinity and quota.
int usable_threads() {
  static const int threads = [] {
    const int allowed = omp_get_max_threads();
    return std::getenv("OMP_NUM_THREADS") != nullptr ? allowed : std::min(allowed, quota_cpus(allowed));
  }();
  return threads;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return std::string(trim(line.substr(line.find(':') + 1)));
  }
  return "CPU";
}

}  // namespace

CpuDevice::CpuDevice(int threads) {
  if (threads < 0) fail_input("the CPU device cannot have {} threads", threads);
  caps_.kind = DeviceKind::cpu;
  caps_.name = cpu_model();
  caps_.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  const int usable = usable_threads();
  caps_.threads = threads > 0 ? threads : usable;
  caps_.isa = name_of(detect_isa());
}

void CpuDevice::parallel_for(int64_t count, int64_t grain,
                             const std::function<void(int64_t, int64_t)>& body) const {
  if (count <= 0) return;
  const int64_t threads = caps_.threads;
  const int64_t length = std::max({int64_t{1}, grain, (count + threads - 1) / threads});
  const int64_t ranges = (count + length - 1) / length;
  if (ranges == 1) return body(0, count);
  std::exception_ptr failure;
#pragma omp parallel for schedule(static, 1) num_threads(caps_.threads)
  for (int64_t range = 0; range < ranges; ++range) {
    try {
      body(range * length, std::min(count, (range + 1) * length));
    } catch (...) {  // an exception must not leave a parallel region
#pragma omp critical(tang_parallel_for_failure)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

Buffer CpuDevice::allocate(int64_t bytes) {
  if (bytes < 0) fail_input("cannot allocate {} bytes", bytes);
  if (bytes == 0) return Buffer(*this, nullptr, 0);
  // Linux promises more than it has: what cannot fit is refused here rather than killed later.
  void* data = bytes <= caps_.memory_bytes ? std::aligned_alloc(256, (bytes + 255) / 256 * 256) : nullptr;
  if (data == nullptr) {
    fail_machine("out of memory: {} wanted, the machine has {}", human_bytes(bytes),
                 human_bytes(caps_.memory_bytes));
  }
  return Buffer(*this, data, bytes);
}

void CpuDevice::release(void* data, int64_t) noexcept { std::free(data); }

void CpuDevice::upload(void* target, const void* host, int64_t bytes, StreamId stream) {
  copy(target, host, bytes, stream);
}

void CpuDevice::download(void* host, const void* source, int64_t bytes, StreamId stream) {
  copy(host, source, bytes, stream);
}

void CpuDevice::copy(void* target, const void* source, int64_t bytes, StreamId) {
  if (bytes > 0) std::memmove(target, source, bytes);
}

void CpuDevice::copy_2d(void* target, const void* source, const Copy2d& plan, StreamId) {
  const int64_t size = size_of(plan.dtype);
  for (int64_t row = 0; row < plan.height; ++row) {
    std::memmove(static_cast<char*>(target) + (plan.target_offset + row * plan.target_pitch) * size,
                 static_cast<const char*>(source) + (plan.source_offset + row * plan.source_pitch) * size,
                 plan.width * size);
  }
}

void CpuDevice::fill_bytes(void* target, int value, int64_t bytes, StreamId) {
  if (bytes > 0) std::memset(target, value, bytes);
}

Event CpuDevice::record(StreamId) { return std::make_shared<Clock::time_point>(Clock::now()); }

double CpuDevice::elapsed_ms(const Event& begin, const Event& end) {
  const auto at = [](const Event& event) { return *static_cast<const Clock::time_point*>(event.get()); };
  return std::chrono::duration<double, std::milli>(at(end) - at(begin)).count();
}

std::shared_ptr<void> CpuDevice::allocate_pinned(int64_t bytes) {
  auto buffer = std::make_shared<Buffer>(allocate(std::max<int64_t>(bytes, 1)));
  return {buffer, buffer->data()};
}

}  // namespace tang
