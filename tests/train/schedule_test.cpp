#include "lib/train/schedule.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace tang;

TEST_CASE("train: warm-up and cosine, value by value") {
  const Schedule s{.kind = ScheduleKind::cosine, .peak = 1e-3, .floor = 1e-4, .steps = 10, .warmup = 2};
  const double wanted[] = {5e-4,       1e-3,   1e-3,       9.65746e-4, 8.68198e-4,
                           7.22208e-4, 5.5e-4, 3.77792e-4, 2.31802e-4, 1.34254e-4};
  for (int64_t step = 0; step < 10; ++step) {
    CHECK(learning_rate(s, step) == doctest::Approx(wanted[step]).epsilon(1e-5));
  }
  CHECK(learning_rate(s, 10) == 1e-4);
  CHECK(learning_rate(s, 1000) == 1e-4);
}

TEST_CASE(
    "train: no warm-up, a warm-up of one and one of all steps reach the peak without dividing by zero") {
  for (ScheduleKind kind :
       {ScheduleKind::cosine, ScheduleKind::linear, ScheduleKind::wsd, ScheduleKind::constant}) {
    for (int64_t warmup : {0, 1}) {
      CHECK(learning_rate({.kind = kind, .peak = 1, .steps = 10, .warmup = warmup, .decay = 2}, 0) == 1);
    }
    const Schedule all{.kind = kind, .peak = 1, .steps = 10, .warmup = 10};
    CHECK(learning_rate(all, 9) == 1);
    CHECK(learning_rate({.kind = kind, .peak = 1, .steps = 100, .warmup = 100}, 0) == doctest::Approx(0.01));
    for (int64_t step = 0; step < 12; ++step) CHECK(std::isfinite(learning_rate(all, step)));
  }
}

TEST_CASE("train: linear and wsd end at the floor and stay there") {
  const Schedule linear{.kind = ScheduleKind::linear, .peak = 1, .floor = 0.5, .steps = 10};
  CHECK(learning_rate(linear, 5) == 0.75);
  CHECK(learning_rate(linear, 10) == 0.5);
  const Schedule wsd{.kind = ScheduleKind::wsd, .peak = 1, .floor = 0, .steps = 10, .warmup = 2, .decay = 4};
  CHECK(learning_rate(wsd, 5) == 1);
  CHECK(learning_rate(wsd, 6) == 1);
  CHECK(learning_rate(wsd, 8) == 0.5);
  CHECK(learning_rate(wsd, 10) == 0);
  const Schedule flat{.kind = ScheduleKind::constant, .peak = 1, .floor = 0, .steps = 10};
  CHECK(learning_rate(flat, 20) == 1);
}
