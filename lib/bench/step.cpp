#include "lib/bench/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "lib/base/error.h"
#include "lib/base/spans.h"
#include "lib/base/text.h"
#include "lib/bench/bench.h"
#include "lib/bench/peaks.h"
#include "lib/bench/step_driver.h"
#include "lib/bench/step_report.h"
#include "lib/ops/catalog.h"
#include "lib/train/fit.h"

namespace tang {

namespace {

constexpr int64_t warm_up_steps = 3;
/// The profile repeats the step for about this long, within these limits.
constexpr double profile_ms = 2000;
constexpr double least_passes = 3, most_passes = 15;

struct Setup {
  RunConfig config;
  std::unique_ptr<Device> device;
  std::unique_ptr<Llama> model;
};

Setup set_up(const StepBenchOptions& options) {
  Setup setup;
  setup.config = load_run_config(options.config, options.overrides);
  setup.device = open_device(setup.config.train.device);
  choose_implementations(options.impls, *setup.device);
  resolve_micro_batch(setup.config, *setup.device);
  check_memory(setup.config, *setup.device);
  setup.model = std::make_unique<Llama>(*setup.device, setup.config.model, setup.config.step_options());
  return setup;
}

void require_finite(const StepResults& results, const char* when) {
  if (results.halted == 0 && std::isfinite(results.loss_sum) && std::isfinite(results.grad_norm)) return;
  fail_check("{}: the sum of losses is {} and the gradient norm {}: nothing is timed", when, results.loss_sum,
             results.grad_norm);
}

/// The first step's results, once they are known to be finite and to repeat. The first run goes op by op, the
/// second, on CUDA, is the captured graph.
StepResults prove(StepDriver& driver, StepReport& report) {
  const StepResults first = driver.first_step();
  report.first_step_seconds = seconds_of_process();
  report.start_up = spans();
  require_finite(first, "the first step");
  const StepResults again = driver.first_step();
  if (std::memcmp(&first.loss_sum, &again.loss_sum, sizeof(float)) != 0 ||
      std::memcmp(&first.grad_norm, &again.grad_norm, sizeof(float)) != 0) {
    fail_check(
        "two runs of the first step differ (sum of losses {} and {}, gradient norm {} and {}): nothing is "
        "timed; tang-check repeat may find the op",
        first.loss_sum, again.loss_sum, first.grad_norm, again.grad_norm);
  }
  return first;
}

StepReport measure(const Setup& setup, const StepBenchOptions& options) {
  const RunConfig& config = setup.config;
  Llama& model = *setup.model;
  StepDriver driver(model, config);
  StepReport report;
  const StepResults first = prove(driver, report);
  driver.time_steps(warm_up_steps);
  report.driver_bytes = setup.device->memory_in_use();
  report.timing = driver.time_steps(options.steps);
  const double passes = std::clamp(profile_ms / report.timing.median_ms, least_passes, most_passes);
  report.rows = profile_step(model, driver.micro_steps(), static_cast<int>(passes));
  require_finite(model.results(), "the timed steps");

  report.config = options.config;
  report.device = setup.device->caps().name;
  report.precision = config.train.precision;
  report.attention = model.attention_impl();
  report.parameters = parameter_count(model.config());
  report.micro_steps = driver.micro_steps();
  report.micro_batch = config.train.micro_batch;
  report.seq_len = config.data.seq_len;
  report.vocab_size = model.config().vocab_size;
  report.loss = static_cast<double>(first.loss_sum) / static_cast<double>(driver.tokens());
  report.grad_norm = static_cast<double>(first.grad_norm);
  report.flops_per_token = train_flops_per_token(model.config(), config.data.seq_len);
  report.peak_flops = datasheet_flops(*setup.device, config.precision());
  report.planned_bytes = model.memory().total();
  return report;
}

}  // namespace

int run_bench_step(const StepBenchOptions& options) {
  if (options.steps < 1) fail_input("--steps must be 1 or more, found {}", options.steps);
  Setup setup = set_up(options);
  StepReport report = measure(setup, options);
  setup.model.reset();  // the roofs need memory of their own
  Peaks peaks(*setup.device);
  for (ProfileRow& row : report.rows) row.roof_ms = static_cast<double>(row.calls) * peaks.roof_ms(row.call);
  std::fputs((options.json ? step_json(report) : step_tables(report)).c_str(), stdout);
  return 0;
}

int run_bench_step_shapes(const StepBenchOptions& options) {
  Setup setup = set_up(options);
  const int64_t micro_steps = setup.config.train.batch_tokens / setup.model->options().rows();
  std::vector<BenchShape> shapes;
  const auto collect = [&shapes](const OpList& list, int64_t runs) {
    for (const ListedOp& listed : list.ops()) {
      const OpCall call = listed.describe();
      const OpBase* op = &find_op(listed.run.op());
      auto known = std::find_if(shapes.begin(), shapes.end(), [&](const BenchShape& shape) {
        return shape.op == op && shape.text == call.text && shape.mode == call.mode;
      });
      if (known == shapes.end()) known = shapes.insert(shapes.end(), {op, call.text, call.mode, 0});
      known->calls += runs;
    }
  };
  collect(setup.model->first_ops(), 1);
  if (micro_steps > 1) collect(setup.model->further_ops(), micro_steps - 1);
  collect(setup.model->optimizer_ops(), 1);
  setup.model.reset();
  return bench_shapes(*setup.device, shapes, options.json);
}

}  // namespace tang
