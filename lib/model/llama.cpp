#include "lib/model/llama.h"

#include <cstring>

#include "lib/base/error.h"
#include "lib/base/spans.h"
#include "lib/model/step_builder.h"
#include "lib/ops/attention.h"
#include "lib/ops/elementwise.h"
#include "lib/ops/rope.h"

namespace tang {

Llama::Llama(Device& device, const ModelConfig& config, const StepOptions& options)
    : device_(device), config_(validated(config)), options_(options), layout_(param_layout(config_)) {
  if (options_.micro_batch < 1 || options_.seq_len < 1) {
    fail_input("a model needs micro_batch and seq_len of 1 or more, found {} and {}", options_.micro_batch,
               options_.seq_len);
  }
  const Span span("model");
  const MemoryPlan plan = plan_memory(config_, options_, device_.kind());
  workspace_ = std::make_unique<Workspace>(device_, plan);
  buffers_ = lay_out(*workspace_, config_, layout_, options_, device_.kind());
  const int64_t scratch_words = plan[MemoryClass::scratch] / size_of(Dtype::u32);
  void* scratch = workspace_->take(MemoryClass::scratch, Dtype::u32, {scratch_words}).data;
  scalar_ring_ = device_.allocate_pinned(steps_in_flight * sizeof(StepScalars));
  prepare(scratch);
  upload_tables();
  for (Arena which : {Arena::master, Arena::gradient, Arena::moment1, Arena::moment2}) clear(which);
  refresh_weights();
  device_.fill_bytes(buffers_.results.data, 0, buffers_.results.bytes());
}

void Llama::prepare(void* scratch) {
  const Span span("ops of the step");
  StepBuilder builder(&device_, config_, layout_, options_, buffers_, scratch);
  OpList forward;
  builder.forward(forward);
  for (OpList* list : {&first_, &further_, &evaluate_first_, &evaluate_further_}) list->add(forward);
  builder.head(first_, true, true);
  builder.backward(first_, true);
  builder.head(further_, false, true);
  builder.backward(further_, false);
  builder.head(evaluate_first_, true, false);
  builder.head(evaluate_further_, false, false);
  builder.optimizer(optimizer_);
  if (buffers_.weights.data != buffers_.master.data) {
    const int64_t columns = 128;  // of which the arena is a multiple
    cast_weights_ = cast.prepare(device_, {.x = buffers_.master.reshape({layout_.size / columns, columns}),
                                           .y = buffers_.weights.reshape({layout_.size / columns, columns})});
  }
  const View heads(buffers_.narrow.data, data_type(options_.precision),
                   {options_.micro_batch, options_.seq_len, config_.n_heads, config_.head_dim});
  const View kv_heads(heads.data, heads.dtype,
                      {options_.micro_batch, options_.seq_len, config_.n_kv_heads, config_.head_dim});
  const AttentionForward shapes{
      .q = heads, .k = kv_heads, .v = kv_heads, .o = heads, .lse = buffers_.blocks.front().lse};
  attention_impl_ = attention_forward.choose(device_, &shapes).name;
}

void Llama::upload_tables() {
  const RopeTables tables = rope_tables(options_.seq_len, config_.head_dim, config_.rope_theta);
  device_.upload(buffers_.cos.data, tables.cos.data(), buffers_.cos.bytes());
  device_.upload(buffers_.sin.data, tables.sin.data(), buffers_.sin.bytes());
}

View Llama::arena(Arena which) const {
  switch (which) {
    case Arena::master:
      return buffers_.master;
    case Arena::gradient:
      return buffers_.gradients;
    case Arena::moment1:
      return buffers_.moment1;
    case Arena::moment2:
      return buffers_.moment2;
  }
  return {};
}

void* Llama::address(Arena which, const ParamTensor& tensor) const {
  return arena(which).slice(0, tensor.offset, tensor.offset + tensor.size()).data;
}

void Llama::initialize(uint64_t seed) {
  const Span span("initial weights");
  initialize_params(device_, config_, layout_, seed, buffers_.master);
  for (Arena which : {Arena::gradient, Arena::moment1, Arena::moment2}) clear(which);
  refresh_weights();
}

std::vector<float> Llama::download(Arena which, const ParamTensor& tensor) const {
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  device_.download(values.data(), address(which, tensor), tensor.size() * size_of(Dtype::f32));
  device_.synchronize();
  return values;
}

std::vector<float> Llama::download(Arena which, std::string_view name) const {
  return download(which, layout_.tensor(name));
}

void Llama::upload(Arena which, const ParamTensor& tensor, std::span<const float> values) {
  if (static_cast<int64_t>(values.size()) != tensor.size()) {
    fail_input("{} has {} values, found {}", tensor.name, tensor.size(), values.size());
  }
  device_.upload(address(which, tensor), values.data(), tensor.size() * size_of(Dtype::f32));
  device_.synchronize();
}

void Llama::clear(Arena which) {
  const View whole = arena(which);
  device_.fill_bytes(whole.data, 0, whole.bytes());
}

void Llama::refresh_weights() {
  if (buffers_.weights.data != buffers_.master.data) cast_weights_();
}

void Llama::set_scalars(const StepScalars& scalars) {
  StepScalars* slot = static_cast<StepScalars*>(scalar_ring_.get()) + next_scalars_;
  next_scalars_ = (next_scalars_ + 1) % steps_in_flight;
  *slot = scalars;
  device_.upload(buffers_.scalars.data, slot, sizeof scalars);
}

void Llama::load_batch(const uint32_t* ids, const uint32_t* targets) {
  device_.upload(buffers_.ids.data, ids, buffers_.ids.bytes());
  device_.upload(buffers_.targets.data, targets, buffers_.targets.bytes());
}

void Llama::accumulate(bool first) { (first ? first_ : further_).run(device_); }

void Llama::update() { optimizer_.run(device_); }

void Llama::evaluate(bool first) { (first ? evaluate_first_ : evaluate_further_).run(device_); }

void Llama::queue_results(StepResults* target) {
  device_.download(target, buffers_.results.data, sizeof *target);
}

StepResults Llama::results() {
  StepResults found;
  queue_results(&found);
  device_.synchronize();
  return found;
}

}  // namespace tang
