#include "lib/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tang {

double learning_rate(const Schedule& s, int64_t step) {
  if (step < s.warmup) return s.peak * static_cast<double>(step + 1) / static_cast<double>(s.warmup);
  if (s.kind == ScheduleKind::constant) return s.peak;
  if (step >= s.steps) return s.floor;
  const int64_t begin = s.kind == ScheduleKind::wsd ? std::max(s.warmup, s.steps - s.decay) : s.warmup;
  if (step < begin) return s.peak;
  const double progress = static_cast<double>(step - begin) / static_cast<double>(s.steps - begin);
  if (s.kind == ScheduleKind::cosine) {
    return s.floor + 0.5 * (1.0 + std::cos(std::numbers::pi * progress)) * (s.peak - s.floor);
  }
  return s.peak + progress * (s.floor - s.peak);
}

}  // namespace tang
