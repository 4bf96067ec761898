// Training as a whole: the same bits twice, whatever the kernel cache held, and near what other
// implementations give.
#pragma once

#include <string>
#include <vector>

#include "lib/check/verdict.h"

namespace tang {

struct TrainingCheckOptions {
  std::string config;                  // as tang-train takes it, with its data
  std::vector<std::string> overrides;  // key=value
  std::vector<std::string> against;    // op=implementation, each: what a third run uses instead
  int64_t steps = 50;
  double within = 0.01;  // relative, of each loss of that run
};

/// Trains `steps` steps twice in one process, on a device opened anew: first with an empty kernel cache, then
/// with what that left. Every loss and gradient norm must have the same bits, and so must the weights at the
/// end. With `against`, a third run's losses must be near. One case a step, and one for the weights. Runs and
/// cache lie in a temporary folder and are removed.
Counts check_training(const TrainingCheckOptions& options);

}  // namespace tang
