// Times one operation: median and spread of single runs.
#pragma once

#include <functional>
#include <vector>

#include "lib/device/device.h"

namespace tang {

struct Timing {
  double median_ms = 0, p10_ms = 0, p90_ms = 0, best_ms = 0;
  int samples = 0;
  /// Half the distance from p10 to p90, as a fraction of the median.
  double spread() const { return median_ms > 0 ? (p90_ms - p10_ms) / 2 / median_ms : 0; }
};

/// Times of single runs in ms, at least one.
Timing summarise(std::vector<double> times);

class Timer {
 public:
  explicit Timer(Device& device);

  /// Warms up, then takes 5 to 200 samples within about 0.3 s. CUDA: events around each run; before it the L2
  /// cache is overwritten, which also lets the host run ahead, so no launch latency is in the figure.
  /// CPU: the steady clock.
  Timing measure(const std::function<void()>& run);

 private:
  double once_cpu(const std::function<void()>& run);
  std::vector<double> sample_cpu(const std::function<void()>& run);
  std::vector<double> sample_cuda(const std::function<void()>& run);

  Device& device_;
  Buffer flush_;  // CUDA: larger than any L2
};

}  // namespace tang
