// Whole training steps on random tokens, as the trainer queues them.
#pragma once

#include "lib/bench/timer.h"
#include "lib/model/llama.h"
#include "lib/train/run_config.h"

namespace tang {

class StepDriver {
 public:
  /// `config` has its micro-batch resolved and is what `model` was built from.
  StepDriver(Llama& model, const RunConfig& config);

  /// Fresh weights from the configuration's seed, then one step; waits.
  StepResults first_step();
  /// `count` steps, two in flight. CUDA: device time from the end of one to the end of the next.
  Timing time_steps(int64_t count);

  Llama& model() const { return model_; }
  int64_t micro_steps() const { return micro_steps_; }
  int64_t tokens() const { return tokens_; }  // a step

 private:
  void queue_step();

  Llama& model_;
  int64_t micro_steps_, tokens_, updates_ = 0;
  uint64_t seed_;
  std::shared_ptr<void> batches_;  // pinned u32 [batches_count, 2, tokens]: ids, targets
  std::shared_ptr<void> results_;  // pinned StepResults
};

}  // namespace tang
