#include "lib/model/params.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "lib/base/error.h"
#include "lib/train/checksum.h"
#include "tests/model/tiny_model.h"

using namespace tang;

namespace {

std::string refusal(const ModelConfig& config) {
  try {
    validated(config);
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const ModelConfig of_350m{.dim = 1024,
                          .n_layers = 24,
                          .n_heads = 16,
                          .n_kv_heads = 8,
                          .head_dim = 64,
                          .ffn_dim = 2816,
                          .vocab_size = 50304};

}  // namespace

TEST_CASE("model: shapes that cannot be are refused with both numbers and the rule") {
  ModelConfig config = tiny_model_config();
  config.n_heads = 7;
  CHECK(has(refusal(config), "n_heads 7 must be divisible by n_kv_heads 2 (here 7 mod 2 = 1)"));
  config = tiny_model_config();
  config.head_dim = 59;
  CHECK(has(refusal(config), "head_dim 59 is not supported: it must be even"));
  config.head_dim = 258;
  CHECK(has(refusal(config), "from 2 to 256"));
  config = tiny_model_config();
  config.head_dim = 0;
  config.n_heads = 5;
  config.n_kv_heads = 5;
  CHECK(has(refusal(config), "dim 32 is not divisible by n_heads 5"));
  CHECK(refusal({.dim = 3200, .n_layers = 1, .n_heads = 32, .ffn_dim = 8, .vocab_size = 8}) == "accepted");
}

TEST_CASE("model: heads need not add up to the width") {
  const ParamLayout layout = param_layout(validated({.dim = 1792,
                                                     .n_layers = 1,
                                                     .n_heads = 24,
                                                     .n_kv_heads = 8,
                                                     .head_dim = 128,
                                                     .ffn_dim = 8,
                                                     .vocab_size = 8}));
  CHECK(layout.tensor("model.layers.0.self_attn.q_proj.weight").shape() == std::vector<int64_t>{3072, 1792});
  CHECK(layout.tensor("model.layers.0.self_attn.o_proj.weight").shape() == std::vector<int64_t>{1792, 3072});
}

TEST_CASE("model: published sizes come out") {
  CHECK(parameter_count(of_350m) == 334676992);
  const ModelConfig smollm2_135m{.dim = 576,
                                 .n_layers = 30,
                                 .n_heads = 9,
                                 .n_kv_heads = 3,
                                 .head_dim = 64,
                                 .ffn_dim = 1536,
                                 .vocab_size = 49152};
  CHECK(parameter_count(smollm2_135m) == 134515008);
  CHECK(param_layout(smollm2_135m).tensors.size() == 272);
  // 6 x 334,626,816 + 6 x 24 x 1024 x 1024.
  CHECK(train_flops_per_token(of_350m, 1024) == 6.0 * 334626816 + 6.0 * 24 * 1024 * 1024);
}

TEST_CASE("model: tensors tile the arena, matrices first") {
  for (bool tied : {true, false}) {
    ModelConfig config = tiny_model_config();
    config.tie_embeddings = tied;
    const ParamLayout layout = param_layout(config);
    int64_t end = 0, total = 0;
    std::set<std::string> names;
    for (const ParamTensor& tensor : layout.tensors) {
      CHECK(tensor.offset >= end);
      CHECK((tensor.cols > 0) == (tensor.offset < layout.decayed));
      end = tensor.offset + tensor.size();
      total += tensor.size();
      names.insert(tensor.name);
    }
    CHECK(end <= layout.size);
    CHECK(total == parameter_count(config));
    CHECK(names.size() == layout.tensors.size());
    CHECK(names.count("lm_head.weight") == (tied ? 0 : 1));
  }
}

namespace {

std::vector<float> fresh_weights(Device& device, const ModelConfig& config, uint64_t seed) {
  const ParamLayout layout = param_layout(config);
  const Buffer memory = device.allocate(layout.size * size_of(Dtype::f32));
  initialize_params(device, config, layout, seed, memory.view(Dtype::f32, {layout.size}));
  std::vector<float> values(static_cast<size_t>(layout.size));
  device.download(values.data(), memory.data(), memory.bytes());
  device.synchronize();
  return values;
}

}  // namespace

TEST_CASE("model: a GPU draws the bits that the CPU draws" * doctest::skip(!cuda_available())) {
  CpuDevice cpu;
  const auto cuda = open_device("cuda");
  ModelConfig config = of_350m;
  config.n_layers = 2;  // 76 million values
  const std::vector<float> wanted = fresh_weights(cpu, config, 7), got = fresh_weights(*cuda, config, 7);
  CHECK(std::memcmp(wanted.data(), got.data(), wanted.size() * sizeof(float)) == 0);
}

TEST_CASE("model: fresh weights are the same everywhere") {
  const ModelConfig config = tiny_model_config();
  const ParamLayout layout = param_layout(config);
  CpuDevice device;
  const std::vector<float> arena = fresh_weights(device, config, 42);
  CHECK(xxh64(std::as_bytes(std::span(arena))) == 15231027826606688928u);
  const auto deviation = [&](const std::string& name) {
    const ParamTensor& tensor = layout.tensor(name);
    double sum = 0;
    for (int64_t i = 0; i < tensor.size(); ++i)
      sum += std::pow(arena[static_cast<size_t>(tensor.offset + i)], 2);
    return std::sqrt(sum / static_cast<double>(tensor.size()));
  };
  CHECK(deviation("model.embed_tokens.weight") == doctest::Approx(0.1).epsilon(0.05));
  CHECK(deviation("model.layers.1.mlp.down_proj.weight") == doctest::Approx(0.1 / 2).epsilon(0.05));
  CHECK(deviation("model.norm.weight") == 1);
}

TEST_CASE("model: the plan is what the run takes") {
  CpuDevice device(1);
  for (Precision precision : {Precision::f32, Precision::bf16}) {
    const StepOptions options = tiny_step_options(precision, 3);
    const Llama model(device, tiny_model_config(), options);
    CHECK(model.memory().bytes == plan_memory(tiny_model_config(), options, DeviceKind::cpu).bytes);
  }
  const StepOptions large{.precision = Precision::bf16, .micro_batch = 32, .seq_len = 1024};
  const MemoryPlan plan = plan_memory(of_350m, large, DeviceKind::cuda);
  CHECK(plan[MemoryClass::weights] == 2 * param_layout(of_350m).size);
  CHECK(plan.total() < int64_t{40} << 30);
  CHECK(largest_micro_batch(of_350m, large, DeviceKind::cuda, 32, plan.total()) == 32);
  CHECK(largest_micro_batch(of_350m, large, DeviceKind::cuda, 32, plan.total() - 1) == 16);
  CHECK(largest_micro_batch(of_350m, large, DeviceKind::cuda, 32, 1000) == 0);
}
