#include "lib/model/memory_plan.h"

#include <numeric>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/model/activations.h"
#include "lib/model/step_builder.h"

namespace tang {

namespace {

constexpr int64_t alignment = 256;
/// Where the made-up addresses of a plan start.
constexpr uintptr_t nowhere = 1 << 20;

}  // namespace

int64_t MemoryPlan::total() const { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

Workspace::Workspace() {
  base_.fill(reinterpret_cast<char*>(nowhere));
  limit_.bytes.fill(INT64_MAX);
}

Workspace::Workspace(Device& device, const MemoryPlan& plan) : limit_(plan) {
  for (size_t i = 0; i < base_.size(); ++i) {
    buffers_.push_back(device.allocate(plan.bytes[i]));
    base_[i] = static_cast<char*>(buffers_.back().data());
  }
}

View Workspace::take(MemoryClass kind, Dtype dtype, std::initializer_list<int64_t> dims) {
  const auto index = static_cast<size_t>(kind);
  View view(base_[index] + used_.bytes[index], dtype, dims);
  used_.bytes[index] += (view.bytes() + alignment - 1) / alignment * alignment;
  if (used_.bytes[index] > limit_.bytes[index]) {
    fail_check("the plan counted {} bytes of {}, the run wants {}", limit_.bytes[index],
               memory_class_names[index], used_.bytes[index]);
  }
  return view;
}

MemoryPlan plan_memory(const ModelConfig& config, const StepOptions& options, DeviceKind kind) {
  const ParamLayout layout = param_layout(config);
  Workspace workspace;
  const StepBuffers buffers = lay_out(workspace, config, layout, options, kind);
  StepBuilder builder(nullptr, config, layout, options, buffers);
  OpList nothing;
  builder.forward(nothing);
  builder.head(nothing, true, true);
  builder.backward(nothing, true);
  builder.optimizer(nothing);
  workspace.take(MemoryClass::scratch, Dtype::u32, {(builder.scratch_bytes() + 3) / 4});
  return workspace.used();
}

int64_t largest_micro_batch(const ModelConfig& config, StepOptions options, DeviceKind kind,
                            int64_t sequences, int64_t budget_bytes) {
  for (int64_t count = sequences; count > 0; --count) {
    if (sequences % count != 0) continue;
    options.micro_batch = count;
    if (plan_memory(config, options, kind).total() <= budget_bytes) return count;
  }
  return 0;
}

std::string describe(const MemoryPlan& plan) {
  std::string text;
  for (size_t i = 0; i < plan.bytes.size(); ++i) {
    if (plan.bytes[i] == 0) continue;
    text += fmt::format("{:<12} {:>16} bytes  {:>9}\n", memory_class_names[i], plan.bytes[i],
                        human_bytes(static_cast<double>(plan.bytes[i])));
  }
  return text + fmt::format("{:<12} {:>16} bytes  {:>9}\n", "total", plan.total(),
                            human_bytes(static_cast<double>(plan.total())));
}

}  // namespace tang
