#include "lib/bench/step_driver.h"

#include <chrono>

#include "lib/base/rng.h"
#include "lib/base/spans.h"

namespace tang {

namespace {

constexpr int64_t batches_count = 2;
constexpr uint64_t token_stream = 91;
/// Of the peak learning rate: random tokens teach nothing, and weights should stay as a young model's are.
constexpr double rate_share = 0.01;

}  // namespace

StepDriver::StepDriver(Llama& model, const RunConfig& config)
    : model_(model),
      micro_steps_(config.train.batch_tokens / model.options().rows()),
      tokens_(config.train.batch_tokens),
      seed_(static_cast<uint64_t>(config.train.seed)),
      batches_(model.device().allocate_pinned(batches_count * 2 * tokens_ *
                                              static_cast<int64_t>(sizeof(uint32_t)))),
      results_(model.device().allocate_pinned(sizeof(StepResults))) {
  const Rng rng(seed_, token_stream);
  const auto vocab = static_cast<uint64_t>(model.config().vocab_size);
  auto* ids = static_cast<uint32_t*>(batches_.get());
  for (int64_t i = 0; i < batches_count * 2 * tokens_; ++i) {
    uint64_t id = rng.below(static_cast<uint64_t>(i), vocab);
    if (static_cast<int64_t>(id) == model.options().pad_id) id = (id + 1) % vocab;  // every target counts
    ids[i] = static_cast<uint32_t>(id);
  }
}

void StepDriver::queue_step() {
  const OptimizerSettings& settings = model_.options().optimizer;
  const uint32_t* ids = static_cast<uint32_t*>(batches_.get()) + updates_ % batches_count * 2 * tokens_;
  model_.set_scalars(step_scalars(settings, settings.lr * rate_share, tokens_, ++updates_));
  for (int64_t at = 0; at < tokens_; at += model_.options().rows()) {
    model_.load_batch(ids + at, ids + tokens_ + at);
    model_.accumulate(at == 0);
  }
  model_.update();
  model_.queue_results(static_cast<StepResults*>(results_.get()));
}

StepResults StepDriver::first_step() {
  model_.initialize(seed_);
  updates_ = 0;
  const Span span("first step");
  queue_step();
  model_.device().synchronize();
  return *static_cast<const StepResults*>(results_.get());
}

Timing StepDriver::time_steps(int64_t count) {
  using clock = std::chrono::steady_clock;
  Device& device = model_.device();
  std::vector<double> times;
  if (device.kind() == DeviceKind::cpu) {
    for (int64_t i = 0; i < count; ++i) {
      const auto begin = clock::now();
      queue_step();
      times.push_back(std::chrono::duration<double, std::milli>(clock::now() - begin).count());
    }
    return summarise(std::move(times));
  }
  std::vector<Event> ends{device.record()};
  for (int64_t i = 0; i < count; ++i) {
    queue_step();
    ends.push_back(device.record());
    if (i >= 2) device.synchronize(ends[ends.size() - 3]);
  }
  device.synchronize();
  for (size_t i = 1; i < ends.size(); ++i) times.push_back(device.elapsed_ms(ends[i - 1], ends[i]));
  return summarise(std::move(times));
}

}  // namespace tang
