// A Llama-style decoder with everything that trains it, on one device: parameters, gradients, AdamW state,
// activations, and a step as lists of prepared ops. Nothing is allocated after construction.
//
//   Llama model(device, config, options);
//   model.initialize(seed);
//   model.set_scalars({.loss_scale = 1.0f / valid, .lr = …, .bias1 = …, .bias2 = …});
//   for each micro-batch: model.load_batch(ids, targets); model.accumulate(first);
//   model.update();
//   StepResults results = model.results();
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/model/activations.h"
#include "lib/model/op_list.h"

namespace tang {

/// The flat f32 arenas that share the parameters' layout.
enum class Arena { master, gradient, moment1, moment2 };

class Llama {
 public:
  /// Takes all memory and prepares every op. The weights are undefined until initialize or upload.
  Llama(Device& device, const ModelConfig& config, const StepOptions& options);

  Device& device() const { return device_; }
  const ModelConfig& config() const { return config_; }
  const StepOptions& options() const { return options_; }
  const ParamLayout& layout() const { return layout_; }
  const MemoryPlan& memory() const { return workspace_->used(); }
  /// The implementation of attention that runs ("cuda:mma").
  const std::string& attention_impl() const { return attention_impl_; }

  // ---- Parameters and optimizer state ----

  /// Fresh weights from `seed`, moments and gradients zero.
  void initialize(uint64_t seed);
  /// One tensor's values, packed [rows, cols]; waits for the device.
  std::vector<float> download(Arena arena, const ParamTensor& tensor) const;
  std::vector<float> download(Arena arena, std::string_view name) const;
  void upload(Arena arena, const ParamTensor& tensor, std::span<const float> values);
  /// Zeroes a whole arena, vocabulary padding included.
  void clear(Arena arena);
  /// Working weights from the masters: call it after uploads to the masters.
  void refresh_weights();
  View arena(Arena which) const;
  /// The working weights, an arena in the precision's dtype (in f32 the masters themselves).
  const View& weights() const { return buffers_.weights; }

  // ---- A step; everything is queued, nothing waits ----

  /// For the micro-steps and the update that follow. At most `steps_in_flight` calls may be unfinished.
  void set_scalars(const StepScalars& scalars);
  static constexpr int steps_in_flight = 4;
  /// B·T ids and targets. From pinned memory the copy is queued: keep it until the step has run.
  void load_batch(const uint32_t* ids, const uint32_t* targets);
  /// Forward and backward of the loaded batch. `first`: gradients and loss sum are overwritten, else added
  /// to.
  void accumulate(bool first);
  /// Gradient norm, finite guard, AdamW.
  void update();
  /// Forward of the loaded batch; adds its losses to eval_loss_sum (`first`: overwrites). Leaves training
  /// state alone.
  void evaluate(bool first);

  /// Queues the copy of the step's results; `target` in pinned memory does not wait.
  void queue_results(StepResults* target);
  /// The results now; waits.
  StepResults results();

  /// The ops of a step, for profiles: first micro-step, further ones, optimizer.
  const OpList& first_ops() const { return first_; }
  const OpList& further_ops() const { return further_; }
  const OpList& optimizer_ops() const { return optimizer_; }

 private:
  void prepare(void* scratch);
  void upload_tables();
  void* address(Arena arena, const ParamTensor& tensor) const;

  Device& device_;
  ModelConfig config_;
  StepOptions options_;
  ParamLayout layout_;
  std::unique_ptr<Workspace> workspace_;
  StepBuffers buffers_;
  std::shared_ptr<void> scalar_ring_;  // pinned StepScalars [steps_in_flight]
  int next_scalars_ = 0;
  std::string attention_impl_;
  OpList first_, further_, optimizer_, evaluate_first_, evaluate_further_;
  Prepared cast_weights_;
};

}  // namespace tang
