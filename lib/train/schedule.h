// Learning rate schedules: a pure function of the step.
#pragma once

#include <cstdint>
#include <string>

namespace tang {

enum class ScheduleKind { cosine, linear, wsd, constant };

struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double peak = 0, floor = 0;  // learning rates
  int64_t steps = 0;           // S
  int64_t warmup = 0;          // W, at most S
  int64_t decay = 0;           // of wsd: the last `decay` steps fall to the floor
};

/// Step s counts from 0. Warm-up is peak·(s + 1) / W, never 0. Then, with p = (s − W) / (S − W):
/// cosine floor + ½ (1 + cos πp)(peak − floor), linear peak + p (floor − peak), constant peak; wsd stays at
/// the peak until S − decay and then falls linearly. From step S on: the floor (constant: the peak).
double learning_rate(const Schedule& schedule, int64_t step);

}  // namespace tang
