#include "lib/train/run_training.h"

#include <algorithm>

#include "lib/base/cli.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/data/dataset.h"
#include "lib/device/gpu_peaks.h"
#include "lib/ops/catalog.h"
#include "lib/train/resume.h"
#include "lib/train/trainer.h"

namespace tang {

namespace {

/// Left for the driver's own needs: context, kernels, library workspaces.
constexpr int64_t driver_reserve = int64_t{1} << 30;
/// Micro-batch on the CPU when nothing is said: large enough for its GEMMs, small enough for its caches.
constexpr int64_t cpu_micro_batch_tokens = 2048;

void choose_implementations(const std::vector<std::string>& choices) {
  for (const std::string& choice : choices) {
    const size_t equals = choice.find('=');
    if (equals == std::string::npos) fail_input("--impl {}: expected op=implementation", choice);
    const OpBase& op = find_op(choice.substr(0, equals));
    const std::string impl = choice.substr(equals + 1);
    std::vector<std::string> known;
    for (const Impl& candidate : op.spec().impls) known.push_back(candidate.name);
    if (std::find(known.begin(), known.end(), impl) == known.end()) {
      fail_input("--impl {}: {} has {}", choice, op.name(), fmt::join(known, ", "));
    }
    override_impl(op.name(), impl);
  }
}

/// Bytes a plan may take on this device.
int64_t memory_budget(const Device& device) {
  const int64_t total = device.caps().memory_bytes;
  return device.kind() == DeviceKind::cpu ? total - total / 8
                                          : total - device.memory_in_use() - driver_reserve;
}

int64_t automatic_micro_batch(const RunConfig& config, const Device& device) {
  const int64_t sequences = config.batch_sequences();
  if (device.kind() == DeviceKind::cuda) {
    return std::max<int64_t>(1, largest_micro_batch(config.model, config.step_options(), device.kind(),
                                                    sequences, memory_budget(device)));
  }
  for (int64_t count = sequences; count > 1; --count) {
    if (sequences % count == 0 && count * config.data.seq_len <= cpu_micro_batch_tokens) return count;
  }
  return 1;
}

/// FLOP/s by the datasheet in this precision; 0 where there is none to go by.
double peak_flops(const Device& device, Precision precision) {
  const std::optional<GpuPeak> peak = gpu_peak(device.caps().name);
  if (device.kind() != DeviceKind::cuda || !peak) return 0;
  return 1e12 * (precision == Precision::bf16   ? peak->bf16
                 : precision == Precision::tf32 ? peak->tf32
                                                : peak->f32);
}

/// Refuses a plan that does not fit before any of it is taken.
void check_memory(const RunConfig& config, const Device& device) {
  const MemoryPlan plan = plan_memory(config.model, config.step_options(), device.kind());
  const int64_t budget = memory_budget(device);
  if (plan.total() <= budget) return;
  const int64_t fits = largest_micro_batch(config.model, config.step_options(), device.kind(),
                                           config.batch_sequences(), budget);
  fail_machine("the plan needs {} and {} has {} to give; {} (--plan shows it by class)",
               human_bytes(static_cast<double>(plan.total())), device.caps().name,
               human_bytes(static_cast<double>(budget)),
               fits > 0 ? fmt::format("train.micro_batch={} fits", fits)
                        : "try train.recompute=block or a smaller model");
}

int print_plan(const RunConfig& config, const Device& device) {
  const StepOptions options = config.step_options();
  const MemoryPlan plan = plan_memory(config.model, options, device.kind());
  const double per_token = train_flops_per_token(config.model, config.data.seq_len);
  fmt::print("{}\n", describe(plan));
  fmt::print("parameters {} ({})\n", parameter_count(config.model),
             human_count(static_cast<double>(parameter_count(config.model))));
  fmt::print("micro_batch {} x seq_len {}, {} micro-steps a step of {} tokens\n", options.micro_batch,
             options.seq_len, config.batch_sequences() / options.micro_batch, config.train.batch_tokens);
  fmt::print(
      "FLOPs a token {:.4g} = 6 x matmul parameters {} + 6 x L x T x H x D {:.4g} (causal attention)\n",
      per_token, matmul_parameters(config.model),
      per_token - 6.0 * static_cast<double>(matmul_parameters(config.model)));
  fmt::print("FLOPs a step {:.4g}\n", per_token * static_cast<double>(config.train.batch_tokens));
  const int64_t budget = memory_budget(device);
  fmt::print("largest micro-batch that fits {} of {}: {}\n", human_bytes(static_cast<double>(budget)),
             device.caps().name,
             largest_micro_batch(config.model, options, device.kind(), config.batch_sequences(), budget));
  return 0;
}

TokenLoader open_data(const RunConfig& config, DataSplit split) {
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
                  .peak_flops = peak_flops(device, config.precision())})
      .run();
}

}  // namespace

int run_training(const TrainRequest& request) {
  RunConfig config = load_run_config(request.config, request.overrides);
  if (request.print_config) {
    fmt::print("{}", print_config(config));
    return 0;
  }
  choose_implementations(request.impls);
  const std::unique_ptr<Device> device = open_device(config.train.device);
  if (config.train.micro_batch == 0) config.train.micro_batch = automatic_micro_batch(config, *device);
  if (request.plan) return print_plan(config, *device);
  return train(config, *device, request);
}

}  // namespace tang
