#include "lib/train/run_training.h"

#include "lib/base/cli.h"
#include "lib/base/error.h"
#include "lib/base/spans.h"
#include "lib/base/text.h"
#include "lib/data/dataset.h"
#include "lib/train/fit.h"
#include "lib/train/resume.h"
#include "lib/train/trainer.h"
#include "lib/train/training_sample.h"

namespace tang {

namespace {

int print_plan(const RunConfig& config, const Device& device) {
  const StepOptions options = config.step_options();
  const MemoryPlan plan = plan_memory(config.model, options, device.kind());
  const double per_token = train_flops_per_token(config.model, config.data.seq_len);
  fmt::print("{}\n", describe(plan));
  if (const int64_t sample = TrainingSample::memory_bytes(config, device.kind()); sample > 0) {
    fmt::print("besides, eval.sample takes {}\n", human_bytes(static_cast<double>(sample)));
  }
  fmt::print("parameters {} ({})\n", parameter_count(config.model),
             human_count(static_cast<double>(parameter_count(config.model))));
  fmt::print("micro_batch {} x seq_len {}, {} micro-steps a step of {} tokens\n", options.micro_batch,
             options.seq_len, config.batch_sequences() / options.micro_batch, config.train.batch_tokens);
  fmt::print(
      "FLOPs a token {:.4g} = 6 x matmul parameters {} + 6 x L x T x H x D {:.4g} (causal attention)\n",
      per_token, matmul_parameters(config.model),
      per_token - 6.0 * static_cast<double>(matmul_parameters(config.model)));
  fmt::print("FLOPs a step {:.4g}\n", per_token * static_cast<double>(config.train.batch_tokens));
  const int64_t budget = memory_budget(config, device);
  fmt::print("largest micro-batch that fits {} of {}: {}\n", human_bytes(static_cast<double>(budget)),
             device.caps().name,
             largest_micro_batch(config.model, options, device.kind(), config.batch_sequences(), budget));
  return 0;
}

TokenLoader open_data(const RunConfig& config, DataSplit split) {
  const Span span("data");
  const bool train = split == DataSplit::train;
  // Validation reads the same sequences whatever the seed.
  return TokenLoader({.paths = train ? config.data.train : config.data.val,
                      .split = split,
                      .seq_len = config.data.seq_len,
                      .vocab_size = config.model.vocab_size,
                      .shuffle = train ? config.data.shuffle : true,
                      .seed = train ? static_cast<uint64_t>(config.train.seed) : 0});
}

/// The tokenizer to keep with the weights: data.tokenizer, or what dataset.json beside the shards names.
std::string tokenizer_file(const RunConfig& config) {
  const std::string& given = config.data.tokenizer;
  if (!given.empty()) {
    if (!fs::is_regular_file(given)) fail_input("data.tokenizer: there is no file {}", given);
    return given;
  }
  const fs::path first = config.data.train.front();
  const fs::path folder = fs::is_directory(first) ? first : first.parent_path();
  if (!fs::exists(folder / dataset_file)) return "";
  const Json dataset = Json::parse(read_file(folder / dataset_file), (folder / dataset_file).string());
  const Json* tokenizer = dataset.find("tokenizer");
  const Json* file = tokenizer == nullptr ? nullptr : tokenizer->find("file");
  return file != nullptr && fs::is_regular_file(folder / file->as_string()) ? folder / file->as_string()
                                                                            : fs::path();
}

std::map<std::string, std::string> config_values(const RunConfig& config) {
  std::map<std::string, std::string> values;
  for (const ConfigField& field : schema()) values[field.key] = field.print(config);
  return values;
}

void announce(const RunConfig& config, const Llama& model, const TokenLoader& data, const RunStart& start,
              int64_t steps) {
  const ModelConfig& m = config.model;
  fmt::print("tang-train {}: {} ({}), {}, attention {}\n", version(), model.device().caps().name,
             name_of(model.device().kind()), config.train.precision, model.attention_impl());
  fmt::print("model: {} parameters, dim {}, {} layers, {}/{} heads of {}, ffn {}, vocabulary {}{}\n",
             human_count(static_cast<double>(parameter_count(m))), m.dim, m.n_layers, m.n_heads, m.n_kv_heads,
             m.head_dim, m.ffn_dim, m.vocab_size, m.tie_embeddings ? ", tied" : "");
  fmt::print("data: {} tokens, {} sequences of {} an epoch\n",
             human_count(static_cast<double>(data.tokens())), data.sequences_per_epoch(),
             config.data.seq_len);
  const double tokens = static_cast<double>(steps) * static_cast<double>(config.train.batch_tokens);
  fmt::print(
      "run: {} steps of {} tokens ({} micro-steps of {} sequences), {} tokens, {:.2f} epochs; planned "
      "memory {}\n",
      steps, config.train.batch_tokens, config.batch_sequences() / config.train.micro_batch,
      config.train.micro_batch, human_count(tokens),
      static_cast<double>(steps * config.batch_sequences()) / static_cast<double>(data.sequences_per_epoch()),
      human_bytes(static_cast<double>(model.memory().total())));
  fmt::print("folder: {}{}\n", start.run.string(),
             start.checkpoint ? fmt::format(", going on from {}", start.checkpoint->string()) : "");
  for (const std::string& note : start.notes) fmt::print("{}\n", note);
}

void fill_model(Llama& model, const RunConfig& config, const RunStart& start) {
  if (start.checkpoint) return load_checkpoint(*start.checkpoint, model);
  if (!config.model_init.empty()) return load_weights(config.model_init, model);
  model.initialize(static_cast<uint64_t>(config.train.seed));
}

void create_run_folder(const RunConfig& config, const fs::path& run) {
  fs::create_directories(run);
  remove_leftovers(run);
  write_file_atomic(run / "config.yaml", print_config(config));
}

int train(RunConfig& config, Device& device, const TrainRequest& request) {
  RunStart start = find_start(config, request.config, request.resume);
  TokenLoader data = open_data(config, DataSplit::train);
  std::optional<TokenLoader> validation;
  if (config.eval.every > 0) validation.emplace(open_data(config, DataSplit::val));
  const int64_t steps = config.total_steps(data.sequences_per_epoch());
  check_schedule(config, config.schedule_over(steps));
  check_memory(config, device);
  config.run_dir = start.run.string();
  config.data.tokenizer = tokenizer_file(config);
  TrainingSample::check(config);
  if (start.checkpoint) {
    for (std::string& note : compare_with_checkpoint(start.state, config, data.fingerprint())) {
      start.notes.push_back(std::move(note));
    }
  }
  start.state.fingerprint = data.fingerprint();
  start.state.config = config_values(config);
  Llama model(device, config.model, config.step_options());
  fill_model(model, config, start);
  announce(config, model, data, start, steps);
  create_run_folder(config, start.run);
  return Trainer({.config = config,
                  .model = model,
                  .data = data,
                  .validation = validation ? &*validation : nullptr,
                  .state = start.state,
                  .run = start.run,
                  .total_steps = steps,
                  .peak_flops = datasheet_flops(device, config.precision()),
                  .tell_start_up = request.tell_start_up})
      .run();
}

}  // namespace

int run_training(const TrainRequest& request) {
  RunConfig config = load_run_config(request.config, request.overrides);
  if (request.print_config) {
    fmt::print("{}", print_config(config));
    return 0;
  }
  const std::unique_ptr<Device> device = open_device(config.train.device);
  choose_implementations(request.impls, *device);
  resolve_micro_batch(config, *device);
  if (request.plan) return print_plan(config, *device);
  return train(config, *device, request);
}

}  // namespace tang
