// Generation against the training forward, which has no cache: token for token.
#include "lib/infer/generator.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/model/llama.h"
#include "lib/model/step_builder.h"
#include "lib/ops/matmul.h"
#include "lib/ops/rope.h"
#include "tests/model/tiny_model.h"

namespace tang {
namespace {

constexpr int64_t longest = 48;

/// Weights of the tiny model on a device.
struct Weights {
  ModelConfig config = tiny_model_config();
  ParamLayout layout = param_layout(config);
  Buffer memory;
  View view;

  explicit Weights(Device& device, Dtype dtype = Dtype::f32) {
    std::vector<float> values(static_cast<size_t>(layout.size));
    CpuDevice host;
    initialize_params(host, config, layout, 3, View(values.data(), Dtype::f32, {layout.size}));
    const std::vector<bf16> narrow(values.begin(), values.end());
    memory = device.allocate(layout.size * size_of(dtype));
    view = memory.view(dtype, {layout.size});
    device.upload(view.data, dtype == Dtype::f32 ? static_cast<const void*>(values.data()) : narrow.data(),
                  view.bytes());
    device.synchronize();
  }
};

/// The likeliest next token at every position of `ids`, by the training forward over the whole of it.
std::vector<uint32_t> likeliest(Device& device, const Weights& weights, std::vector<uint32_t> ids) {
  const ModelConfig& c = weights.config;
  const StepOptions options{.precision = Precision::f32, .micro_batch = 1, .seq_len = longest};
  const MemoryPlan plan = plan_memory(c, options, device.kind());
  Workspace workspace(device, plan);
  StepBuffers buffers = lay_out(workspace, c, weights.layout, options, device.kind());
  buffers.weights = weights.view;
  const Buffer scratch = device.allocate(plan[MemoryClass::scratch]);
  const RopeTables tables = rope_tables(longest, c.head_dim, c.rope_theta);
  device.upload(buffers.cos.data, tables.cos.data(), buffers.cos.bytes());
  device.upload(buffers.sin.data, tables.sin.data(), buffers.sin.bytes());
  const size_t length = ids.size();
  ids.resize(longest, 0);
  device.upload(buffers.ids.data, ids.data(), buffers.ids.bytes());
  OpList list;
  StepBuilder(&device, c, weights.layout, options, buffers, scratch.data()).forward(list);
  list.run(device);
  const int64_t vocab = c.padded_vocab();
  const Buffer memory = device.allocate(longest * vocab * size_of(Dtype::f32));
  const View head = weights.view.slice(0, weights.layout.head, weights.layout.head + vocab * c.dim);
  matmul(device, {.a = buffers.stream,
                  .b = head.reshape({vocab, c.dim}),
                  .c = memory.view(Dtype::f32, {longest, vocab}),
                  .transpose_b = true});
  std::vector<float> logits(static_cast<size_t>(longest * vocab));
  device.download(logits.data(), memory.data(), memory.bytes());
  device.synchronize();
  std::vector<uint32_t> best;
  for (size_t t = 0; t < length; ++t) {
    const auto row = logits.begin() + static_cast<int64_t>(t) * vocab;
    best.push_back(static_cast<uint32_t>(std::max_element(row, row + c.vocab_size) - row));
  }
  return best;
}

std::vector<std::vector<uint32_t>> prompts_of(std::initializer_list<int64_t> lengths) {
  std::vector<std::vector<uint32_t>> prompts;
  for (const int64_t length : lengths) {
    prompts.emplace_back();
    for (int64_t i = 0; i < length; ++i) {
      prompts.back().push_back(
          static_cast<uint32_t>(Rng(7, prompts.size()).below(static_cast<uint64_t>(i), 61)));
    }
  }
  return prompts;
}

std::vector<std::vector<uint32_t>> ids_of(const std::vector<Generated>& texts) {
  std::vector<std::vector<uint32_t>> ids;
  for (const Generated& text : texts) ids.push_back(text.ids);
  return ids;
}

/// Prompts around a chunk of 8: none, less than one, exactly one (a last token is in none), three.
void equals_the_forward(Device& device, const char* activation = "silu") {
  Weights weights(device);
  weights.config.activation = activation;
  for (const int64_t batch : {6, 9}) {  // few rows and many: both ways through a step
    Generator generator(device, weights.config, weights.view,
                        {.batch = batch, .capacity = longest, .chunk = 8});
    const auto prompts = prompts_of({1, 2, 5, 9, 10, 26});
    for (int round = 0; round < 3; ++round) {  // op by op, captured, replayed
      const auto texts = generator.run(prompts, {.max_tokens = 20});
      for (size_t b = 0; b < prompts.size(); ++b) {
        CAPTURE(b);
        REQUIRE(texts[b].ids.size() == 20);
        std::vector<uint32_t> all = prompts[b];
        all.insert(all.end(), texts[b].ids.begin(), texts[b].ids.end() - 1);
        const std::vector<uint32_t> best = likeliest(device, weights, all);
        const std::vector<uint32_t> wanted(best.begin() + static_cast<int64_t>(prompts[b].size()) - 1,
                                           best.end());
        CHECK(texts[b].ids == wanted);
      }
    }
  }
}

/// Together and alone, greedy and drawn.
void stands_alone(Device& device) {
  const Weights weights(device);
  const auto prompts = prompts_of({1, 2, 5, 9, 10, 26});
  Generator together(device, weights.config, weights.view, {.batch = 6, .capacity = longest, .chunk = 8});
  Generator single(device, weights.config, weights.view, {.batch = 1, .capacity = longest, .chunk = 16});
  for (const double temperature : {0.0, 0.7}) {
    const GenerateOptions options{.max_tokens = 15, .sampling = {.temperature = temperature, .seed = 5}};
    const auto texts = together.run(prompts, options);
    for (size_t b = 0; b < prompts.size(); ++b) {
      CAPTURE(b);
      const auto alone = single.run(std::span(prompts).subspan(b, 1), options);
      CHECK(alone[0].ids == texts[b].ids);
    }
  }
}

/// What a run said, in order: a token as (text, id), an end as (text, -1 or, at a stop token, -2).
using Heard = std::vector<std::pair<int64_t, int64_t>>;
Heard hear(Generator& generator, std::span<const std::vector<uint32_t>> prompts,
           const GenerateOptions& options) {
  Heard heard;
  generator.run(
      prompts, options, [&](int64_t b, uint32_t id) { heard.emplace_back(b, id); },
      [&](int64_t b, bool stopped) { heard.emplace_back(b, stopped ? -2 : -1); });
  return heard;
}

/// Bursts against single steps: every number of tokens around a few bursts, with the caches just full; then
/// every token of the texts as the stop token. A batch of more than four leaves sequences idle.
void bursts_are_steps(Device& device, int64_t burst, int64_t batch) {
  const Weights weights(device);
  const auto prompts = prompts_of({1, 2, 5, 10});
  const auto generator = [&](int64_t steps, int64_t capacity) {
    return Generator(device, weights.config, weights.view,
                     {.batch = batch, .capacity = capacity, .chunk = 8, .burst = steps});
  };
  Generator single = generator(1, longest);
  for (int64_t count = 1; count <= 13; ++count) {
    CAPTURE(count);
    Generator full = generator(burst, 10 + count - 1);
    const Heard wanted = hear(single, prompts, {.max_tokens = count});
    CHECK(wanted.size() == static_cast<size_t>(4 * (count + 1)));
    for (int round = 0; round < 3; ++round) CHECK(hear(full, prompts, {.max_tokens = count}) == wanted);
    CHECK(full.times().steps == count);
    CHECK(full.times().tokens == 4 * count);
  }
  Generator bursts = generator(burst, longest);
  for (const Generated& text : single.run(prompts, {.max_tokens = 13})) {
    for (const uint32_t stop : text.ids) {
      CAPTURE(stop);
      const GenerateOptions options{.max_tokens = 13, .stop_id = stop};
      const Heard wanted = hear(single, prompts, options);
      CHECK(hear(bursts, prompts, options) == wanted);
      CHECK(bursts.times().steps == single.times().steps);
      CHECK(bursts.times().tokens == single.times().tokens);
    }
  }
}

}  // namespace

TEST_CASE("generator: bursts say what single steps say, in the same order") {
  CpuDevice device(1);
  for (const int64_t burst : {2, 4, 5, 8}) bursts_are_steps(device, burst, 4);
  for (const int64_t batch : {5, 9}) bursts_are_steps(device, 4, batch);  // few rows and many
}

TEST_CASE("generator: bursts say what single steps say on CUDA" * doctest::skip(!cuda_available())) {
  for (const int64_t batch : {5, 9}) bursts_are_steps(*open_device("cuda", false), 4, batch);
}

TEST_CASE("generator: greedy text is the uncached forward's, token for token") {
  CpuDevice device(2);
  equals_the_forward(device);
  equals_the_forward(device, "relu2");
}

TEST_CASE("generator: greedy text is the uncached forward's on CUDA" * doctest::skip(!cuda_available())) {
  equals_the_forward(*open_device("cuda", false));
  equals_the_forward(*open_device("cuda", false), "relu2");
}

TEST_CASE("generator: a text does not depend on what stands beside it") {
  CpuDevice device(2);
  stands_alone(device);
}

TEST_CASE("generator: a text does not depend on what stands beside it on CUDA" *
          doctest::skip(!cuda_available())) {
  stands_alone(*open_device("cuda", false));
}

TEST_CASE("generator: the same seed gives the same text, another seed another; bf16 runs") {
  CpuDevice device(1);
  const Weights weights(device, Dtype::bf16);
  Generator generator(device, weights.config, weights.view,
                      {.precision = Precision::bf16, .batch = 2, .capacity = longest, .chunk = 8});
  const auto prompts = prompts_of({4, 12});
  const auto text = [&](uint64_t seed) {
    return ids_of(generator.run(prompts, {.max_tokens = 20, .sampling = {.temperature = 1, .seed = seed}}));
  };
  const auto first = text(1);
  CHECK(text(2) != first);
  CHECK(text(1) == first);
}

TEST_CASE("generator: a stop token ends its text alone, and callbacks tell what the result holds") {
  CpuDevice device(1);
  const Weights weights(device);
  Generator generator(device, weights.config, weights.view, {.batch = 2, .capacity = longest, .chunk = 8});
  const auto prompts = prompts_of({3, 7});
  const auto whole = generator.run(prompts, {.max_tokens = 12});
  // The first token of text 0 that neither text had before.
  const auto& ids = whole[0].ids;
  size_t at = 1;
  while (at < ids.size() && std::find(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(at), ids[at]) !=
                                ids.begin() + static_cast<ptrdiff_t>(at)) {
    ++at;
  }
  const uint32_t stop = at < ids.size() ? ids[at] : ids[0];
  std::vector<std::vector<uint32_t>> heard(2);
  int ends = 0;
  const auto cut = generator.run(
      prompts, {.max_tokens = 12, .stop_id = stop},
      [&](int64_t b, uint32_t id) { heard[static_cast<size_t>(b)].push_back(id); },
      [&](int64_t, bool) { ++ends; });
  for (size_t b = 0; b < 2; ++b) {
    const auto found = std::find(whole[b].ids.begin(), whole[b].ids.end(), stop);
    CHECK(cut[b].ids == std::vector<uint32_t>(whole[b].ids.begin(), found));
    CHECK(cut[b].stopped == (found != whole[b].ids.end()));
    CHECK(heard[b] == cut[b].ids);
  }
  CHECK(cut[0].stopped);
  CHECK(ends == 2);
}

TEST_CASE("generator: the last position can be filled, one more is refused with both numbers") {
  CpuDevice device(1);
  const Weights weights(device);
  Generator generator(device, weights.config, weights.view, {.batch = 1, .capacity = 16, .chunk = 16});
  const auto prompts = prompts_of({10});
  CHECK(generator.run(prompts, {.max_tokens = 7})[0].ids.size() == 7);
  CHECK(generator.run(prompts, {.max_tokens = 7, .sampling = {.temperature = 1}})[0].ids.size() == 7);
  try {
    generator.run(prompts, {.max_tokens = 8});
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK(std::string(error.what()).find("17 positions, and the caches hold 16") != std::string::npos);
  }
  CHECK_THROWS_AS(generator.run(prompts_of({3, 3}), {.max_tokens = 1}), Error);
  CHECK_THROWS_AS(generator.run(prompts_of({0}), {.max_tokens = 1}), Error);
  CHECK_THROWS_AS(generator.run(prompts, {.max_tokens = 0}), Error);
}

TEST_CASE("generator: it takes the memory that its plan names") {
  CpuDevice device(1);
  const Weights weights(device, Dtype::bf16);
  const DecoderOptions options{.precision = Precision::bf16, .batch = 3, .capacity = 20, .chunk = 8};
  const Decoder decoder(device, weights.config, weights.view, options);
  CHECK(decoder.memory().bytes == plan_decoder(weights.config, options, DeviceKind::cpu).bytes);
  // [L = 2, B = 3, 2 Hkv = 4, S = 24, D = 8] in bf16
  CHECK(decoder.memory()[MemoryClass::cache] == 2 * 3 * 4 * 24 * 8 * 2);
}

}  // namespace tang
