// The rules of a configuration that involve more than one field.
#include <algorithm>
#include <array>
#include <cmath>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/train/run_config.h"

namespace tang {

void complete_and_check(RunConfig& config, const std::string& name);

namespace {

class Checker {
 public:
  Checker(const RunConfig& config, const std::string& name) : c_(config), name_(name) {}

  void run() const {
    check_required();
    check_model();
    check_length();
    check_batch();
    check_device();
    check_floor();
    check_data();
  }

  void check_schedule(const Schedule& schedule) const {
    if (schedule.steps == 0) return;
    if (schedule.warmup > schedule.steps) {
      refuse("schedule.warmup_steps", "{} is more than the {} steps of the schedule", schedule.warmup,
             schedule.steps);
    }
    if (schedule.kind == ScheduleKind::wsd && schedule.warmup + schedule.decay > schedule.steps) {
      refuse("schedule.decay_steps", "warm-up {} and decay {} are more than the {} steps of the schedule",
             schedule.warmup, schedule.decay, schedule.steps);
    }
  }

 private:
  template <class... T>
  [[noreturn]] void refuse(const std::string& key, fmt::format_string<T...> message, T&&... values) const {
    fail_input("{}: {}: {}", place(key), key, fmt::format(message, std::forward<T>(values)...));
  }

  std::string place(const std::string& key) const {
    const auto found = c_.origin.find(key);
    return found == c_.origin.end() ? name_ : found->second;
  }
  bool given(const std::string& key) const { return c_.origin.count(key) > 0; }

  void check_required() const {
    for (const ConfigField& field : schema()) {
      if (field.required && !given(field.key)) {
        refuse(field.key, "is missing: expected {} ({})", field.rule(), field.about);
      }
    }
  }

  void check_model() const {
    if (const auto problem = problem_in(c_.model)) refuse("model." + problem->key, "{}", problem->text);
    if (c_.data.pad_id >= c_.model.vocab_size) {
      refuse("data.pad_id", "{} is not below model.vocab_size {}", c_.data.pad_id, c_.model.vocab_size);
    }
  }

  void check_length() const {
    std::vector<std::string> found;
    for (const auto& [key, is_set] :
         {std::pair{"train.steps", c_.train.steps >= 0}, std::pair{"train.tokens", c_.train.tokens > 0},
          std::pair{"train.epochs", c_.train.epochs > 0}}) {
      if (is_set) found.push_back(key);
    }
    if (found.size() == 1) return;
    fail_input("{}: give exactly one of train.steps, train.tokens and train.epochs; found {}",
               found.empty() ? name_ : place(found.back()),
               found.empty() ? "none" : fmt::format("{}", fmt::join(found, ", ")));
  }

  void check_batch() const {
    const int64_t sequences = std::max<int64_t>(c_.train.micro_batch, 1);
    const int64_t unit = checked_product({sequences, c_.data.seq_len}, "micro_batch x seq_len");
    const int64_t left = c_.train.batch_tokens % unit;
    if (left == 0) return;
    const int64_t below = c_.train.batch_tokens - left;
    refuse("train.batch_tokens",
           "{} is not a multiple of micro_batch x seq_len = {} x {} = {}; the nearest are {}{}",
           c_.train.batch_tokens, sequences, c_.data.seq_len, unit,
           below > 0 ? fmt::format("{} and ", below) : "", below + unit);
  }

  void check_device() const {
    const std::string& device = c_.train.device;
    static const std::array<std::string, 3> known = {"auto", "cpu", "cuda"};
    if (std::find(known.begin(), known.end(), device) != known.end()) return;
    const bool numbered = device.starts_with("cuda:") && device.size() > 5 && device.size() < 9 &&
                          device.find_first_not_of("0123456789", 5) == std::string::npos;
    if (!numbered) {
      refuse("train.device", "expected auto, cpu, cuda or cuda:N, found '{}'{}", device,
             suggestion(device, known));
    }
  }

  void check_floor() const {
    if (c_.schedule.min_lr > c_.optimizer.lr) {
      refuse("schedule.min_lr", "{} is above the peak optimizer.lr {}", c_.schedule.min_lr, c_.optimizer.lr);
    }
    if (c_.schedule.steps > 0 || c_.train.epochs == 0) check_schedule(c_.schedule_over(c_.total_steps(0)));
  }

  void check_data() const {
    if (c_.data.train.empty()) refuse("data.train", "is empty: expected a path or a list of paths");
    if (c_.eval.every > 0 && c_.data.val.empty()) {
      refuse("eval.every", "{} needs data.val, which is not given; eval.every: 0 turns evaluation off",
             c_.eval.every);
    }
  }

  const RunConfig& c_;
  const std::string name_;
};

}  // namespace

void complete_and_check(RunConfig& config, const std::string& name) {
  config.model = resolve(config.model);
  Checker(config, name).run();
}

void check_schedule(const RunConfig& config, const Schedule& schedule) {
  Checker(config, "the configuration").check_schedule(schedule);
}

Precision RunConfig::precision() const {
  return train.precision == "bf16"   ? Precision::bf16
         : train.precision == "tf32" ? Precision::tf32
                                     : Precision::f32;
}

Recompute RunConfig::recompute() const {
  static const std::array<std::string, 4> names = {"none", "norms", "swiglu", "block"};
  return static_cast<Recompute>(std::find(names.begin(), names.end(), train.recompute) - names.begin());
}

int64_t RunConfig::total_steps(int64_t sequences_per_epoch) const {
  if (train.steps >= 0) return train.steps;
  if (train.tokens > 0) return (train.tokens + train.batch_tokens - 1) / train.batch_tokens;
  const double sequences = train.epochs * static_cast<double>(sequences_per_epoch);
  return std::max<int64_t>(1, std::llround(std::ceil(sequences / static_cast<double>(batch_sequences()))));
}

Schedule RunConfig::schedule_over(int64_t total_steps) const {
  static const std::array<std::string, 4> names = {"cosine", "linear", "wsd", "constant"};
  Schedule result;
  result.kind =
      static_cast<ScheduleKind>(std::find(names.begin(), names.end(), schedule.kind) - names.begin());
  result.peak = optimizer.lr;
  result.floor = schedule.min_lr;
  result.steps = schedule.steps > 0 ? schedule.steps : total_steps;
  result.warmup = schedule.warmup_steps;
  const int64_t after_warmup = std::max<int64_t>(0, result.steps - result.warmup);
  result.decay = schedule.decay_steps >= 0 ? schedule.decay_steps : std::min(result.steps / 5, after_warmup);
  return result;
}

StepOptions RunConfig::step_options() const {
  return {.precision = precision(),
          .recompute = recompute(),
          .micro_batch = train.micro_batch,
          .seq_len = data.seq_len,
          .pad_id = data.pad_id,
          .optimizer = optimizer};
}

}  // namespace tang
