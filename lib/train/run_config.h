// What a training run is told: a YAML file and dotted overrides. One table of fields (schema()) gives the
// parser, the overrides, --print-config, docs/CONFIG.md and every error message.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/file.h"
#include "lib/model/memory_plan.h"
#include "lib/train/schedule.h"

namespace tang {

/// Member names are the keys: `train.batch_tokens` is config.train.batch_tokens.
struct RunConfig {
  ModelConfig model;
  std::string model_init;  // model.init

  struct {
    std::vector<std::string> train, val;
    std::string tokenizer;
    int64_t seq_len = 0;
    bool shuffle = true;
    int64_t pad_id = -1;  // none
  } data;

  struct {
    std::string device = "auto";
    std::string precision = "bf16";
    int64_t steps = -1;  // -1: not given
    int64_t tokens = 0;  // 0: not given
    double epochs = 0;   // 0: not given
    int64_t batch_tokens = 0;
    int64_t micro_batch = 0;  // auto
    int64_t seed = 0;
    std::string recompute = "none";
  } train;

  OptimizerSettings optimizer;

  struct {
    std::string kind = "cosine";
    int64_t warmup_steps = 0;
    double min_lr = 0;
    int64_t steps = 0;         // auto
    int64_t decay_steps = -1;  // auto
  } schedule;

  struct {
    int64_t every = 1000, keep = 3;
  } checkpoint;
  struct {
    int64_t every = 0, batches = 16;
    struct {
      std::string prompt;
      int64_t tokens = 64, every = 0;
    } sample;
  } eval;
  struct {
    int64_t every = 1;
  } log;
  std::string run_dir;  // run.dir

  /// Where each value that was given came from ("configs/tiny.yaml:12"), for messages.
  std::map<std::string, std::string> origin;

  Precision precision() const;
  Recompute recompute() const;
  int64_t batch_sequences() const { return train.batch_tokens / data.seq_len; }
  /// Steps of the whole run, of which `sequences_per_epoch` matters where epochs were given: the batches that
  /// hold every sequence that often, the last one filled up from the next epoch.
  int64_t total_steps(int64_t sequences_per_epoch) const;
  Schedule schedule_over(int64_t total_steps) const;
  /// With the micro-batch as given (0 where auto).
  StepOptions step_options() const;
};

/// One field of the schema.
struct ConfigField {
  template <class T>
  using Access = T& (*)(RunConfig&);

  std::string key;  // "optimizer.lr"
  std::variant<Access<int64_t>, Access<double>, Access<bool>, Access<std::string>,
               Access<std::vector<std::string>>>
      access;
  std::string about;
  bool required = false;

  // Numbers: the allowed range, and a word that stands for a value outside of it.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false, below_high = false;  // the bound itself is not allowed
  std::string word = {};
  double word_value = 0;
  // Texts: the allowed words; none: any text.
  std::vector<std::string> choices = {};

  /// "an integer >= 1, or auto".
  std::string rule() const;
  /// The value in `config`, as the YAML file would have it.
  std::string print(const RunConfig& config) const;
};

const std::vector<ConfigField>& schema();

/// A value on its way in: where it stands, and its text or list of texts.
struct ConfigValue {
  std::string key, where;
  std::vector<std::string> items;
  bool is_list = false;
};

/// Flattens a YAML text into values. Bad syntax and duplicate keys are input errors with file and line.
std::vector<ConfigValue> read_yaml(const std::string& text, const std::string& name);
/// "key=value"; the value may be a YAML list.
ConfigValue read_override(const std::string& text);

/// Reads, overrides (a later one wins), fills in what follows from other fields, and checks. Every refusal is
/// an input error with place, key, rule and value; unknown keys name the nearest known one.
RunConfig load_run_config(const fs::path& path, const std::vector<std::string>& overrides);
RunConfig parse_run_config(const std::string& text, const std::string& name,
                           const std::vector<std::string>& overrides);

/// Refuses a warm-up or decay longer than the schedule (where only the data tells how long that is).
void check_schedule(const RunConfig& config, const Schedule& schedule);

/// The whole configuration as YAML, defaults included: it reads back equal.
std::string print_config(const RunConfig& config);

/// docs/CONFIG.md.
std::string config_reference();

}  // namespace tang
