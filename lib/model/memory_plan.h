// All device memory of a training step, planned before any is taken. The plan and the run are one function:
// the step is built twice, first on made-up addresses to measure, then on the memory measured.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "lib/device/device.h"
#include "lib/model/config.h"

namespace tang {

enum class MemoryClass { weights, master, moments, gradients, activations, logits, scratch, tables, cache };
constexpr std::array<std::string_view, 9> memory_class_names = {
    "weights", "master", "moments", "gradients", "activations", "logits", "scratch", "tables", "cache"};

struct MemoryPlan {
  std::array<int64_t, memory_class_names.size()> bytes{};

  int64_t& operator[](MemoryClass kind) { return bytes[static_cast<size_t>(kind)]; }
  int64_t operator[](MemoryClass kind) const { return bytes[static_cast<size_t>(kind)]; }
  int64_t total() const;
};

/// Hands out views, a bump allocator for each class. Before `back` it counts on made-up addresses.
class Workspace {
 public:
  Workspace();
  /// The same requests again, from memory of the sizes counted by `plan`.
  Workspace(Device& device, const MemoryPlan& plan);

  View take(MemoryClass kind, Dtype dtype, std::initializer_list<int64_t> dims);
  const MemoryPlan& used() const { return used_; }

 private:
  std::array<char*, memory_class_names.size()> base_;
  std::vector<Buffer> buffers_;
  MemoryPlan used_, limit_;
};

/// What the backward computes again instead of keeping it; each includes the ones before it. None changes a
/// bit of any result.
enum class Recompute { none, norms, swiglu, block };

struct OptimizerSettings {
  double lr = 3e-4;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double clip_norm = 1.0;  // 0: no clipping
};

/// What a training step is built from, besides the model's shape.
struct StepOptions {
  Precision precision = Precision::f32;
  Recompute recompute = Recompute::none;
  int64_t micro_batch = 1;  // B: sequences that go through the model at once
  int64_t seq_len = 0;      // T
  int64_t pad_id = -1;      // target without a loss; -1: none
  OptimizerSettings optimizer;

  int64_t rows() const { return micro_batch * seq_len; }  // N
};

/// The memory that Llama takes for these, by class. `config` is validated.
MemoryPlan plan_memory(const ModelConfig& config, const StepOptions& options, DeviceKind kind);

/// The largest micro-batch that divides `sequences` (the batch's) and fits `budget_bytes`; 0 when not even 1
/// does.
int64_t largest_micro_batch(const ModelConfig& config, StepOptions options, DeviceKind kind,
                            int64_t sequences, int64_t budget_bytes);

/// A table of the plan, a class a line (those without a byte left out), and the total.
std::string describe(const MemoryPlan& plan);

}  // namespace tang
