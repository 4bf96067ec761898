#include "lib/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/bench/peaks.h"
#include "lib/bench/report.h"
#include "lib/bench/sweep.h"
#include "lib/check/devices.h"
#include "lib/check/exam.h"

namespace tang {

namespace {

OpenDevices devices_for(const std::string& choice) {
  return open_devices(choice != "auto" ? choice : cuda_device_count() > 0 ? "cuda" : "cpu");
}

class Bench {
 public:
  Bench(const BenchOptions& options, Device& device)
      : options_(options), device_(device), peaks_(device), timer_(device) {}

  /// Every row of one op on this device.
  void run(const OpBase& op) {
    const Sweep sweep = make_sweep(op, options_.flags, options_.words, device_.kind());
    if (!options_.json) print(table_header(op.name(), sweep.fixed, device_.caps().name));
    for (const SweepPoint& point : sweep.points) {
      for (const Dtype mode : modes_of(op, parse_modes(options_.dtype))) run_point(op, point, mode);
    }
  }

  void run(const BenchShape& shape) {
    if (!options_.json) {
      print(fmt::format("\n{}   # {} a step", bench_command(shape), shape.calls));
      print(table_header(shape.op->name(), shape.text, device_.caps().name));
    }
    run_point(*shape.op, {.text = shape.text, .varying = {}}, shape.mode);
  }

  int timed = 0, failed = 0, refused = 0;
  std::string refusal;  // the first shape that an op itself refused

 private:
  static void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  void finish(const BenchRow& row) {
    if (!row.failure.empty()) ++failed;
    if (row.failure.empty() && row.skipped.empty()) ++timed;
    print(options_.json ? json_row(row) : table_row(row));
  }

  void run_point(const OpBase& op, const SweepPoint& point, Dtype mode) {
    BenchRow row;
    row.op = op.name(), row.text = point.text, row.varying = point.varying, row.mode = mode;
    row.device = device_.caps().name;
    try {
      const Case plan(op, point.text, mode);
      run_impls(plan, row);
    } catch (const Error& error) {  // the op refuses the shape, for every implementation
      if (error.kind() == ErrorKind::input) ++refused;
      if (refusal.empty()) refusal = error.what();
      row.failure = error.what();
      finish(row);
    }
  }

  void run_impls(const Case& plan, const BenchRow& blank) {
    const auto args = plan.make_args(reinterpret_cast<void*>(256));
    const bool first_only = options_.impl.empty(), all = options_.impl == "all";
    std::string reasons;
    for (const Impl& impl : plan.op().spec().impls) {
      if (impl.kind != device_.kind() || !(first_only || all || options_.impl == impl.name)) continue;
      BenchRow row = blank;
      row.impl = impl.name;
      row.skipped = impl.supports(device_.caps(), args.get());
      if (row.skipped.empty()) {
        time(plan, impl, row);
        finish(row);
        if (first_only) return;
        reasons.clear();
      } else if (all) {
        finish(row);
      } else {
        reasons += fmt::format("; {}: {}", impl.name, row.skipped);
      }
    }
    if (reasons.empty()) return;
    BenchRow row = blank;
    row.failure = "no implementation runs this shape here" + reasons;
    finish(row);
  }

  /// Parity at a small shape of the same kind; the verdict is remembered.
  std::string gate(const Case& plan, const Impl& impl) {
    const CaseText text = gate_case(plan.op(), plan.text(), plan.mode());
    const std::string key =
        fmt::format("{} {} {} {}", plan.op().name(), impl.name, name_of(plan.mode()), text);
    const auto known = verdicts_.find(key);
    if (known != verdicts_.end()) return known->second;
    Exam exam{Case(plan.op(), text, plan.mode())};
    exam.compute();
    const Result result = examine(exam, device_, impl);
    std::string verdict;
    if (!result.failure.empty()) verdict = fmt::format("wrong at {}: {}", text, result.failure);
    return verdicts_[key] = verdict;
  }

  void time(const Case& plan, const Impl& impl, BenchRow& row) {
    try {
      row.failure = gate(plan, impl);
      if (!row.failure.empty()) return;
      Instance instance(device_, plan, {});
      const Prepared run = plan.op().prepare_erased(device_, instance.args(), impl.name);
      instance.load_repeated();
      run();
      if (!instance.digest(int64_t{1} << 26).finite) {
        row.failure = "an output is not finite at this size";
        return;
      }
      const OpCall call = plan.op().describe(instance.args());
      row.flops = call.flops;
      row.bytes = call.bytes;
      row.roof_ms = peaks_.roof_ms(call);
      row.timing = timer_.measure([&] { run(); });
    } catch (const std::exception& error) {
      row.failure = error.what();
    }
  }

  const BenchOptions& options_;
  Device& device_;
  Peaks peaks_;
  Timer timer_;
  std::map<std::string, std::string> verdicts_;
};

}  // namespace

int run_bench(const BenchOptions& options) {
  const auto ops = select_ops(options.ops);
  if (!options.impl.empty()) require_impl(ops, options.impl);
  for (const auto& [flag, text] : options.flags) {
    if (!text.empty()) parse_sweep(flag, text);  // bad words are refused before anything runs
  }
  const OpenDevices devices = devices_for(options.device);
  int timed = 0, failed = 0, refused = 0;
  std::string refusal;
  for (const auto& device : devices.open) {
    Bench bench(options, *device);
    for (const OpBase* op : ops) bench.run(*op);
    timed += bench.timed, failed += bench.failed, refused += bench.refused;
    if (refusal.empty()) refusal = bench.refusal;
  }
  if (!devices.absent.empty()) fmt::print(stderr, "cuda: {}\n", devices.absent);
  if (timed == 0 && failed > 0 && refused == failed) fail_input("{}", refusal);
  if (failed > 0) fmt::print(stderr, "{} of {} rows failed\n", failed, timed + failed);
  if (timed + failed == 0) fail_input("nothing to time: no implementation matches --device and --impl");
  return failed > 0 ? 1 : 0;
}

int bench_shapes(Device& device, const std::vector<BenchShape>& shapes, bool json) {
  BenchOptions options;
  options.json = json;
  Bench bench(options, device);
  for (const BenchShape& shape : shapes) bench.run(shape);
  if (bench.failed > 0)
    fmt::print(stderr, "{} of {} rows failed\n", bench.failed, bench.timed + bench.failed);
  return bench.failed > 0 ? 1 : 0;
}

std::string bench_command(const BenchShape& shape) {
  std::string flags, rest;
  for (const std::string& word : words(shape.text)) {
    const std::string name = word.substr(0, word.find('='));
    const auto& dims = shape.op->spec().dims;
    const auto dim =
        std::find_if(dims.begin(), dims.end(), [&](const Dim& known) { return known.letter == name; });
    if (dim == dims.end()) {
      rest += (rest.empty() ? "" : " ") + word;
    } else {
      flags += fmt::format(" --{} {}", dim->flag, word.substr(name.size() + 1));
    }
  }
  if (!rest.empty()) rest = fmt::format(" --case=\"{}\"", rest);
  return fmt::format("tang-bench {}{} --dtype {}{}", shape.op->name(), flags, name_of(shape.mode), rest);
}

int print_peaks(const std::string& device) {
  for (const auto& open : devices_for(device).open) fmt::print("{}", Peaks(*open).describe());
  return 0;
}

}  // namespace tang
