#include "lib/bench/timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace tang {

namespace {

constexpr double budget_ms = 300;
constexpr double warm_up_ms = 150;  // an idle GPU takes that long to reach the clock it then holds
constexpr int64_t flush_bytes = int64_t{256} << 20;

int samples_for(double ms) {
  return static_cast<int>(std::clamp(std::ceil(budget_ms / std::max(ms, 1e-6)), 5.0, 200.0));
}

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace

Timing summarise(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {quantile(times, 0.5), quantile(times, 0.1), quantile(times, 0.9), times.front(),
          static_cast<int>(times.size())};
}

Timer::Timer(Device& device) : device_(device) {
  if (device.kind() == DeviceKind::cuda) flush_ = device.allocate(flush_bytes);
}

double Timer::once_cpu(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<double> Timer::sample_cpu(const std::function<void()>& run) {
  const double first = once_cpu(run);  // page faults and cold caches
  const double warm = first > budget_ms ? first : once_cpu(run);
  std::vector<double> times(static_cast<size_t>(samples_for(warm)));
  for (double& time : times) time = once_cpu(run);
  return times;
}

std::vector<double> Timer::sample_cuda(const std::function<void()>& run) {
  const auto timed = [&] {
    device_.fill_bytes(flush_.data(), 0, flush_bytes);
    const Event begin = device_.record();
    run();
    return std::pair{begin, device_.record()};
  };
  for (int i = 0; i < 2; ++i) run();
  const auto probe = timed();
  device_.synchronize();
  const double ms = std::max(device_.elapsed_ms(probe.first, probe.second), 1e-3);
  for (double spent = 0; spent < warm_up_ms; spent += ms) run();
  std::vector<std::pair<Event, Event>> events(static_cast<size_t>(samples_for(ms)));
  for (auto& pair : events) pair = timed();
  device_.synchronize();
  std::vector<double> times;
  for (const auto& [begin, end] : events) times.push_back(device_.elapsed_ms(begin, end));
  return times;
}

Timing Timer::measure(const std::function<void()>& run) {
  return summarise(device_.kind() == DeviceKind::cuda ? sample_cuda(run) : sample_cpu(run));
}

}  // namespace tang
