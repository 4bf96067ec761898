// Where a training step's time goes: every op of its lists, timed in place.
#pragma once

#include <vector>

#include "lib/model/llama.h"

namespace tang {

/// All calls of one op with one shape in one phase of the step.
struct ProfileRow {
  std::string_view phase, op;
  OpCall call;
  int64_t calls = 0;   // a step
  double ms = 0;       // of all of them
  double roof_ms = 0;  // the least they could take; filled in by the caller
};

/// Runs the step's lists op by op and in order `passes` times, so that each op meets the data and the caches
/// that it meets in training, and sums each op's median. CUDA: device time between events; the host starts
/// ahead, so the latency of a launch is not in it. The rows come in the order of the step.
std::vector<ProfileRow> profile_step(const Llama& model, int64_t micro_steps, int passes);

}  // namespace tang
