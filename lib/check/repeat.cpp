#include "lib/check/repeat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "lib/base/error.h"
#include "lib/check/devices.h"
#include "lib/check/exam.h"

namespace tang {

namespace {

Case size_for(const OpBase& op, Dtype mode, DeviceKind kind, const CaseText& wanted) {
  if (!wanted.empty()) return Case(op, wanted, mode);
  if (kind == DeviceKind::cuda) return Case(op, bench_case(op), mode);
  std::vector<Case> cases;
  for (const CaseText& text : op.spec().cases) cases.emplace_back(op, text, mode);
  if (cases.empty()) fail_check("{} has no registered case", op.name());
  return *std::max_element(cases.begin(), cases.end(),
                           [](const Case& a, const Case& b) { return a.bytes() < b.bytes(); });
}

/// "" or what differed.
std::string run_repeatedly(Device& device, const Case& plan, const Impl& impl, int64_t runs,
                           std::string& unsupported) {
  Instance instance(device, plan, {});
  unsupported = impl.supports(device.caps(), instance.args());
  if (!unsupported.empty()) return "";
  const Prepared run = plan.op().prepare_erased(device, instance.args(), impl.name);
  Instance::Digest first;
  for (int64_t i = 0; i < runs; ++i) {
    instance.load_repeated();
    run();
    const Instance::Digest now = instance.digest();
    if (i == 0) first = now;
    if (now.hash != first.hash) return fmt::format("run {} gave other bits than run 1", i + 1);
  }
  return "";
}

}  // namespace

Counts check_repeat(const RepeatOptions& options) {
  if (options.runs < 2)
    fail_input("--runs must be 2 or more, found {}: one run repeats nothing", options.runs);
  const auto ops = select_ops(options.ops);
  const OpenDevices devices = open_devices(options.device);
  const std::vector<Dtype> wanted = parse_modes(options.dtype);
  Counts counts;
  if (!devices.absent.empty()) fmt::print("cuda: {}\n", devices.absent);
  for (const OpBase* op : ops) {
    for (const Dtype mode : modes_of(*op, wanted)) {
      for (const Impl& impl : op->spec().impls) {
        const auto device = std::find_if(devices.open.begin(), devices.open.end(),
                                         [&](const auto& open) { return open->kind() == impl.kind; });
        std::string failure, unsupported;
        if (device == devices.open.end()) {
          if (!devices.absent.empty()) ++counts.skipped;
          continue;
        }
        const Case plan = size_for(*op, mode, impl.kind, options.only_case);
        try {
          failure = run_repeatedly(**device, plan, impl, options.runs, unsupported);
        } catch (const std::exception& error) {
          failure = error.what();
        }
        ++(!unsupported.empty() ? counts.skipped : failure.empty() ? counts.passed : counts.failed);
        fmt::print("{:<22} {:<14} {:<4} {:<34} {}\n", op->name(), impl.name, name_of(mode), plan.text(),
                   !unsupported.empty() ? "skipped: " + unsupported
                   : failure.empty()    ? fmt::format("{} runs, same bits", options.runs)
                                        : "FAILED: " + failure);
        std::fflush(stdout);
      }
    }
  }
  return counts;
}

}  // namespace tang
