#include "lib/train/fit.h"

#include <algorithm>
#include <optional>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/device/gpu_peaks.h"
#include "lib/ops/catalog.h"
#include "lib/train/training_sample.h"

namespace tang {

namespace {

/// Left for the driver's own needs: context, kernels, library workspaces.
constexpr int64_t driver_reserve = int64_t{1} << 30;
/// Micro-batch on the CPU when nothing is said: large enough for its GEMMs, small enough for its caches.
constexpr int64_t cpu_micro_batch_tokens = 2048;

int64_t automatic_micro_batch(const RunConfig& config, const Device& device) {
  const int64_t sequences = config.batch_sequences();
  if (device.kind() == DeviceKind::cuda) {
    return std::max<int64_t>(1, largest_micro_batch(config.model, config.step_options(), device.kind(),
                                                    sequences, memory_budget(config, device)));
  }
  for (int64_t count = sequences; count > 1; --count) {
    if (sequences % count == 0 && count * config.data.seq_len <= cpu_micro_batch_tokens) return count;
  }
  return 1;
}

struct Choice {
  const OpBase* op;
  std::string impl;
};

std::vector<Choice> parse_choices(const std::vector<std::string>& texts, DeviceKind kind) {
  std::vector<Choice> choices;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) fail_input("'{}': expected op=implementation", text);
    const OpBase& op = find_op(text.substr(0, equals));
    const std::string impl = text.substr(equals + 1);
    std::vector<std::string> known;
    bool found = false;
    for (const Impl& candidate : op.spec().impls) {
      if (candidate.kind != kind) continue;
      known.push_back(candidate.name);
      found = found || candidate.name == impl;
    }
    if (!found) fail_input("'{}': on {} {} has {}", text, name_of(kind), op.name(), fmt::join(known, ", "));
    choices.push_back({&op, impl});
  }
  return choices;
}

}  // namespace

void check_implementations(const std::vector<std::string>& choices, const Device& device) {
  parse_choices(choices, device.kind());
}

void choose_implementations(const std::vector<std::string>& choices, const Device& device) {
  for (const Choice& choice : parse_choices(choices, device.kind()))
    override_impl(choice.op->name(), choice.impl);
}

int64_t memory_budget(const RunConfig& config, const Device& device) {
  const int64_t total = device.caps().memory_bytes - TrainingSample::memory_bytes(config, device.kind());
  return device.kind() == DeviceKind::cpu ? total - total / 8
                                          : total - device.memory_in_use() - driver_reserve;
}

void resolve_micro_batch(RunConfig& config, const Device& device) {
  if (config.train.micro_batch == 0) config.train.micro_batch = automatic_micro_batch(config, device);
}

void check_memory(const RunConfig& config, const Device& device) {
  const MemoryPlan plan = plan_memory(config.model, config.step_options(), device.kind());
  const int64_t budget = memory_budget(config, device);
  if (plan.total() <= budget) return;
  const int64_t fits = largest_micro_batch(config.model, config.step_options(), device.kind(),
                                           config.batch_sequences(), budget);
  fail_machine("the plan needs {} and {} has {} to give; {} (--plan shows it by class)",
               human_bytes(static_cast<double>(plan.total())), device.caps().name,
               human_bytes(static_cast<double>(budget)),
               fits > 0 ? fmt::format("train.micro_batch={} fits", fits)
                        : "try train.recompute=block or a smaller model");
}

double datasheet_flops(const Device& device, Precision precision) {
  const std::optional<GpuPeak> peak = gpu_peak(device.caps().name);
  if (device.kind() != DeviceKind::cuda || !peak) return 0;
  return 1e12 * (precision == Precision::bf16   ? peak->bf16
                 : precision == Precision::tf32 ? peak->tf32
                                                : peak->f32);
}

}  // namespace tang
