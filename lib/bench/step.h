// tang-bench step: the whole training step of a configuration, and where its time goes.
#pragma once

#include <string>
#include <vector>

namespace tang {

struct StepBenchOptions {
  std::string config;                  // the YAML file; its data need not exist: tokens are random
  std::vector<std::string> overrides;  // key=value
  std::vector<std::string> impls;      // op=implementation
  int64_t steps = 20;                  // to time
  bool json = false;                   // one object instead of the tables
};

/// Prints the step's time, tokens/s, MFU and memory, and its time by phase, op and shape. First the step is
/// proved: a check error, and no times, unless loss and gradient norm are finite and two runs of the first
/// step give the same bits. Returns the exit code.
int run_bench_step(const StepBenchOptions& options);

/// Benches each distinct op and shape that the step uses, with the command for each.
int run_bench_step_shapes(const StepBenchOptions& options);

}  // namespace tang
