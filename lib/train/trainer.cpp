#include "lib/train/trainer.h"

#include <algorithm>
#include <cmath>

#include "lib/base/cli.h"
#include "lib/base/error.h"

namespace tang {

using std::chrono::steady_clock;

Trainer::Trainer(TrainerSetup setup)
    : s_(std::move(setup)),
      state_(s_.state),
      schedule_(s_.config.schedule_over(s_.total_steps)),
      feed_(s_.model.device(), s_.data, s_.config.batch_sequences(), s_.config.data.pad_id, slots),
      results_(s_.model.device().allocate_pinned(slots * sizeof(StepResults))),
      metrics_(s_.run / "metrics.jsonl", state_.step),
      console_(s_.total_steps),
      began_(steady_clock::now()),
      last_finished_(began_) {
  if (s_.validation != nullptr) {
    const int64_t micro = s_.model.options().micro_batch;
    eval_batches_ =
        std::clamp<int64_t>(s_.validation->sequences_per_epoch() / micro, 1, s_.config.eval.batches);
    eval_feed_ =
        std::make_unique<BatchFeed>(s_.model.device(), *s_.validation, micro, s_.config.data.pad_id, 1);
  }
  if (s_.config.eval.sample.every > 0) sample_.emplace(s_.config, s_.model);
  if (state_.step > 0) saved_step_ = state_.step;
}

double Trainer::seconds() const {
  return std::chrono::duration<double>(steady_clock::now() - began_).count();
}

int Trainer::run() {
  const RunConfig& c = s_.config;
  start_row();
  first_step_.emplace("first step");
  // A CPU step is over when it has been queued; a GPU is kept busy by two more.
  const size_t in_flight = s_.model.device().kind() == DeviceKind::cpu ? 0 : slots - 1;
  while (state_.step < s_.total_steps && interrupt_.signal() == 0) {
    queue_step();
    collect(in_flight);
    const bool last = state_.step == s_.total_steps;
    const auto due = [&](int64_t every) { return every > 0 && state_.step % every == 0; };
    if (s_.validation != nullptr && (due(c.eval.every) || last)) evaluate();
    if (sample_ && (due(c.eval.sample.every) || last)) print_sample();
    if (due(c.checkpoint.every)) save();
  }
  collect(0);
  if (saved_step_ != state_.step) save();
  const int signal = interrupt_.signal();
  end_row(signal == 0 ? "done" : "interrupted");
  if (signal != 0) {
    console_.say(fmt::format("interrupted after step {}: saved; go on with --resume {}", state_.step,
                             s_.run.string()));
  }
  return signal == 0 ? 0 : 128 + signal;
}

void Trainer::queue_step() {
  const RunConfig& c = s_.config;
  Llama& model = s_.model;
  const BatchFeed::Batch batch = feed_.load(state_.next_sequence);
  const double rate = learning_rate(schedule_, state_.step);
  model.set_scalars(step_scalars(c.optimizer, rate, batch.valid, state_.updates + 1));
  const int64_t rows = model.options().rows();
  for (int64_t at = 0; at < c.train.batch_tokens; at += rows) {
    model.load_batch(batch.ids + at, batch.targets + at);
    model.accumulate(at == 0);
  }
  if (batch.valid > 0) {  // without a target there is nothing to learn: the weights stay as they are
    model.update();
    ++state_.updates;
  }
  Pending step{.valid = batch.valid, .slot = static_cast<int>(state_.step % slots)};
  model.queue_results(static_cast<StepResults*>(results_.get()) + step.slot);
  step.done = model.device().record();
  ++state_.step;
  state_.tokens += c.train.batch_tokens;
  state_.next_sequence += c.batch_sequences();
  step.row = {.kind = "train", .step = state_.step, .tokens = state_.tokens, .lr = rate};
  pending_.push_back(std::move(step));
}

void Trainer::collect(size_t left_in_flight) {
  while (pending_.size() > left_in_flight) {
    const Pending step = std::move(pending_.front());
    pending_.pop_front();
    s_.model.device().synchronize(step.done);
    finish(step);
  }
}

void Trainer::finish(const Pending& step) {
  const StepResults results = static_cast<const StepResults*>(results_.get())[step.slot];
  const auto now = steady_clock::now();
  const double took = std::chrono::duration<double>(now - last_finished_).count();
  last_finished_ = now;
  MetricsRow row = step.row;
  row.seconds = seconds();
  if (step.valid > 0) {
    row.loss = static_cast<double>(results.loss_sum) / static_cast<double>(step.valid);
    row.grad_norm = results.grad_norm;
  }
  row.tokens_per_s = static_cast<double>(s_.config.train.batch_tokens) / took;
  if (s_.peak_flops > 0) {
    row.mfu =
        *row.tokens_per_s * train_flops_per_token(s_.model.config(), s_.config.data.seq_len) / s_.peak_flops;
  }
  metrics_.add(row);
  if (step.valid > 0 && results.halted != 0) stop_not_finite(step, results);
  if (++finished_ == 1) end_start_up();
  // The first step also loads kernels: it says nothing about those to come.
  mean_step_seconds_ = finished_ <= 2 ? took : 0.9 * mean_step_seconds_ + 0.1 * took;
  const bool due = row.step % s_.config.log.every == 0;
  const double eta = mean_step_seconds_ * static_cast<double>(s_.total_steps - row.step);
  console_.step(row, eta, memory_bytes_, due);
  if (due) metrics_.flush();
}

void Trainer::end_start_up() {
  first_step_.reset();
  memory_bytes_ = std::max(s_.model.device().memory_in_use(), s_.model.memory().total());
  if (s_.tell_start_up) console_.say(describe_spans(spans(), seconds_of_process()));
}

void Trainer::stop_not_finite(const Pending& step, const StepResults& results) {
  end_row("not finite");
  const auto newest = list_checkpoints(s_.run);
  fail_check(
      "step {}: the loss is {} and the gradient norm {}: stopped before the update, the weights were "
      "those of step {}; {}",
      step.row.step, static_cast<double>(results.loss_sum) / static_cast<double>(step.valid),
      results.grad_norm, step.row.step - 1,
      newest.empty() ? "there is no checkpoint" : "the newest checkpoint is " + newest[0].path.string());
}

void Trainer::evaluate() {
  collect(0);
  const auto began = steady_clock::now();
  const int64_t micro = s_.model.options().micro_batch;
  int64_t valid = 0;
  for (int64_t i = 0; i < eval_batches_; ++i) {
    const BatchFeed::Batch batch = eval_feed_->load(i * micro);
    valid += batch.valid;
    s_.model.load_batch(batch.ids, batch.targets);
    s_.model.evaluate(i == 0);
    s_.model.device().synchronize(s_.model.device().record());  // the one slot is free again
  }
  const StepResults results = s_.model.results();
  MetricsRow row{.kind = "val", .step = state_.step, .tokens = state_.tokens, .seconds = seconds()};
  if (valid > 0) row.loss = static_cast<double>(results.eval_loss_sum) / static_cast<double>(valid);
  metrics_.add(row);
  metrics_.flush();
  const std::string loss =
      row.loss ? fmt::format("{:.4f} (perplexity {:.2f})", *row.loss, std::exp(*row.loss)) : "-";
  console_.say(fmt::format("step {}: validation loss {} over {} tokens", state_.step, loss, valid));
  last_finished_ += steady_clock::now() - began;  // not part of the next step's time
}

void Trainer::print_sample() {
  collect(0);
  const auto began = steady_clock::now();
  console_.say(fmt::format("step {}: sample: {}", state_.step, sample_->text()));
  last_finished_ += steady_clock::now() - began;
}

void Trainer::save() {
  collect(0);
  const auto began = steady_clock::now();
  metrics_.flush();
  const fs::path path =
      save_checkpoint(s_.run, s_.model, state_, s_.config.checkpoint.keep, s_.config.data.tokenizer);
  saved_step_ = state_.step;
  weights_ = weights_checksum(path);
  console_.say(fmt::format("saved {}, weights {}", path.string(), weights_));
  last_finished_ += steady_clock::now() - began;
}

void Trainer::start_row() {
  const DeviceCaps& caps = s_.model.device().caps();
  MetricsRow row{.kind = "start", .step = state_.step, .tokens = state_.tokens};
  row.more =
      Json::object({{"version", version()},
                    {"device", caps.name},
                    {"precision", s_.config.train.precision},
                    {"parameters", parameter_count(s_.model.config())},
                    {"flops_per_token", train_flops_per_token(s_.model.config(), s_.config.data.seq_len)},
                    {"micro_batch", s_.config.train.micro_batch},
                    {"attention", s_.model.attention_impl()},
                    {"total_steps", s_.total_steps}});
  metrics_.add(row);
  metrics_.flush();
}

void Trainer::end_row(const std::string& reason) {
  MetricsRow row{.kind = "end", .step = state_.step, .tokens = state_.tokens, .seconds = seconds()};
  row.more = Json::object({{"reason", reason}, {"weights", weights_.empty() ? Json() : Json(weights_)}});
  metrics_.add(row);
  metrics_.flush();
}

}  // namespace tang
