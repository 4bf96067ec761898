// The loop: batches in, optimizer steps, metrics, validation, checkpoints.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "lib/base/spans.h"
#include "lib/train/batch_feed.h"
#include "lib/train/checkpoint.h"
#include "lib/train/console.h"
#include "lib/train/interrupt.h"
#include "lib/train/metrics.h"
#include "lib/train/training_sample.h"

namespace tang {

struct TrainerSetup {
  const RunConfig& config;  // micro_batch resolved
  Llama& model;             // weights and moments loaded
  TokenLoader& data;
  TokenLoader* validation = nullptr;  // when eval.every > 0
  TrainState state;                   // where the run stands
  fs::path run;                       // exists
  int64_t total_steps = 0;
  double peak_flops = 0;       // of the device in this precision; 0: unknown, no MFU
  bool tell_start_up = false;  // print where the time to the end of the first step went
};

class Trainer {
 public:
  explicit Trainer(TrainerSetup setup);

  /// Trains to the end or to a signal, saving as configured, and returns the exit code (0, 130 or 143). A
  /// loss or norm that is not finite is a check error that names the step; no update was made from it on.
  int run();

 private:
  struct Pending {  // a queued step whose results are on their way
    MetricsRow row;
    int64_t valid = 0;
    int slot = 0;
    Event done;
  };

  void queue_step();
  void collect(size_t left_in_flight);
  void finish(const Pending& step);
  void end_start_up();
  [[noreturn]] void stop_not_finite(const Pending& step, const StepResults& results);
  void evaluate();
  void print_sample();
  void save();
  void end_row(const std::string& reason);
  void start_row();
  double seconds() const;

  static constexpr int slots = 3;  // two steps in flight and one being collected
  static_assert(slots < Llama::steps_in_flight);

  TrainerSetup s_;
  TrainState state_;
  Schedule schedule_;
  BatchFeed feed_;
  std::unique_ptr<BatchFeed> eval_feed_;
  int64_t eval_batches_ = 0;
  std::optional<TrainingSample> sample_;  // where eval.sample.every > 0
  std::shared_ptr<void> results_;         // pinned StepResults [slots]
  std::deque<Pending> pending_;
  MetricsLog metrics_;
  Console console_;
  InterruptGuard interrupt_;
  std::chrono::steady_clock::time_point began_, last_finished_;
  double mean_step_seconds_ = 0;
  int64_t finished_ = 0;  // steps of this process
  std::optional<Span> first_step_;
  int64_t memory_bytes_ = 0;
  std::optional<int64_t> saved_step_;
  std::string weights_;  // checksum of the last ones saved
};

}  // namespace tang
