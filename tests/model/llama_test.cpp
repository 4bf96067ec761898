#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "lib/device/device.h"
#include "tests/model/tiny_model.h"

using namespace tang;

namespace {

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

double norm(const std::vector<float>& a) { return std::sqrt(dot(a, a)); }

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  return norm(difference) / norm(b);
}

}  // namespace

TEST_CASE("model: one batch is learned by heart, in both precisions") {
  CpuDevice device(1);
  for (Precision precision : {Precision::f32, Precision::bf16}) {
    Llama model(device, tiny_model_config(), tiny_step_options(precision, 2));
    model.initialize(3);
    const TinyBatch batch = tiny_batch(2);
    const double first = accumulate_batch(model, batch);
    CHECK(std::abs(first - std::log(61.0)) < 0.3);
    model.update();
    double loss = first;
    for (int64_t t = 2; t <= 50; ++t) {
      loss = accumulate_batch(model, batch, t);
      model.update();
    }
    CHECK(loss < 0.1);
  }
}

/// Twenty steps at lengths on both sides of the attention tiles, on a batch of one sequence (S08).
void train_at_odd_lengths(Device& device, Precision precision) {
  ModelConfig config = tiny_model_config();
  config.n_layers = 1, config.n_heads = 2, config.n_kv_heads = 1, config.head_dim = 64;  // the fast kernels'
  for (const int64_t length : {1, 2, 63, 65, 127, 129, 255, 257, 511, 513}) {
    CAPTURE(length);
    StepOptions options = tiny_step_options(precision, 1);
    options.seq_len = length;
    Llama model(device, validated(config), options);
    model.initialize(5);
    TinyBatch batch;
    for (int64_t i = 0; i < length; ++i) {
      batch.ids.push_back(static_cast<uint32_t>(i * i % 61));
      batch.targets.push_back(static_cast<uint32_t>((i + 1) * (i + 1) % 61));
    }
    double first = 0, loss = 0;
    for (int64_t t = 1; t <= 20; ++t) {
      loss = accumulate_batch(model, batch, t);
      model.update();
      REQUIRE(std::isfinite(loss));
      if (t == 1) first = loss;
    }
    CHECK(loss < 0.9 * first);
  }
}

TEST_CASE("model: twenty steps at lengths around the tiles learn, and nothing becomes NaN") {
  CpuDevice device(1);
  train_at_odd_lengths(device, Precision::bf16);
}

TEST_CASE("model: the same twenty steps on a GPU" * doctest::skip(!cuda_available())) {
  const auto device = open_device("cuda");
  train_at_odd_lengths(*device, Precision::f32);
  train_at_odd_lengths(*device, Precision::bf16);
}

TEST_CASE("model: every tensor's gradient is the loss's slope") {
  // Central differences in f32 at two reaches, extrapolated: the loss carries about 1e-6 of rounding, which
  // leaves 2e-4 of noise in the result, and the truncation is of the order of the reach to the fourth power.
  CpuDevice device(1);
  Llama model(device, tiny_model_config(), tiny_step_options(Precision::f32, 2));
  model.initialize(5);
  const TinyBatch batch = tiny_batch(2);
  constexpr double reach = 2e-2;
  uint64_t stream = 0;
  for (const ParamTensor& tensor : model.layout().tensors) {
    accumulate_batch(model, batch);  // anew: measuring the tensor before moved its weights
    const std::vector<float> gradient = model.download(Arena::gradient, tensor);
    const std::vector<float> weights = model.download(Arena::master, tensor);
    REQUIRE(norm(gradient) > 0);
    // Along the gradient for a signal, and across it so that a wrong direction shows.
    std::vector<float> random(gradient.size()), direction(gradient.size());
    const Rng rng(9, ++stream);
    for (size_t i = 0; i < random.size(); ++i) random[i] = static_cast<float>(rng.normal(i));
    for (size_t i = 0; i < random.size(); ++i) {
      direction[i] = static_cast<float>(gradient[i] / norm(gradient) + random[i] / norm(random));
    }
    const auto loss_at = [&](double distance) {
      std::vector<float> moved = weights;
      for (size_t i = 0; i < moved.size(); ++i) moved[i] += static_cast<float>(distance * direction[i]);
      model.upload(Arena::master, tensor, moved);
      return accumulate_batch(model, batch);
    };
    const auto slope_at = [&](double h) { return (loss_at(h) - loss_at(-h)) / (2 * h); };
    const double slope = (4 * slope_at(reach / 2) - slope_at(reach)) / 3, wanted = dot(gradient, direction);
    model.upload(Arena::master, tensor, weights);
    CAPTURE(tensor.name);
    CHECK(std::abs(slope - wanted) < 0.002 * std::abs(wanted) + 3e-4);
  }
}

TEST_CASE("model: four micro-steps of one sequence are one of four, but for rounding") {
  CpuDevice device(1);
  const TinyBatch batch = tiny_batch(4);
  for (bool tied : {true, false}) {
    ModelConfig config = tiny_model_config();
    config.tie_embeddings = tied;
    Llama whole_batch(device, config, tiny_step_options(Precision::f32, 4));
    Llama split(device, config, tiny_step_options(Precision::f32, 1));
    whole_batch.initialize(1);
    split.initialize(1);
    const double one = accumulate_batch(whole_batch, batch), four = accumulate_batch(split, batch);
    CHECK(std::abs(one - four) < 1e-6 * one);
    for (const ParamTensor& tensor : split.layout().tensors) {
      CAPTURE(tensor.name);
      CHECK(distance(split.download(Arena::gradient, tensor), whole_batch.download(Arena::gradient, tensor)) <
            2e-6);
    }
  }
}

TEST_CASE("model: recomputing changes memory and no bit") {
  CpuDevice device(1);
  const TinyBatch batch = tiny_batch(4);
  for (Precision precision : {Precision::f32, Precision::bf16}) {
    std::vector<float> wanted;
    int64_t activations = std::numeric_limits<int64_t>::max();
    for (Recompute recompute : {Recompute::none, Recompute::norms, Recompute::swiglu, Recompute::block}) {
      StepOptions options = tiny_step_options(precision, 2);
      options.recompute = recompute;
      Llama model(device, tiny_model_config(), options);
      model.initialize(1);
      accumulate_batch(model, batch);
      if (wanted.empty()) wanted = whole(model, Arena::gradient);
      CHECK(whole(model, Arena::gradient) == wanted);
      CHECK(model.memory()[MemoryClass::activations] < activations);
      activations = model.memory()[MemoryClass::activations];
    }
  }
}

TEST_CASE("model: the same steps give the same bits") {
  CpuDevice device(2);
  for (Precision precision : {Precision::f32, Precision::bf16}) {
    std::vector<float> first;
    for (int run = 0; run < 2; ++run) {
      Llama model(device, tiny_model_config(), tiny_step_options(precision, 2));
      model.initialize(1);
      for (int64_t t = 1; t <= 3; ++t) {
        accumulate_batch(model, tiny_batch(4, static_cast<uint64_t>(t)), t);
        model.update();
      }
      if (run == 0) first = whole(model, Arena::master);
      CHECK(whole(model, Arena::master) == first);
    }
  }
}

TEST_CASE("model: vocabulary padding has no probability and no gradient") {
  CpuDevice device(1);
  for (const auto& [vocab, wanted, steps] :
       {std::tuple<int64_t, double, int64_t>{101, 4.615121, 10}, {50257, 10.824905, 1}}) {
    ModelConfig config = tiny_model_config();
    config.vocab_size = vocab;
    config.init_std = 0;  // a zero head: every id is as likely
    Llama model(device, config, tiny_step_options(Precision::f32, 2));
    model.initialize(1);
    const TinyBatch batch = tiny_batch(2);
    CHECK(accumulate_batch(model, batch) == doctest::Approx(wanted).epsilon(1e-6));
    for (int64_t t = 1; t <= steps; ++t) {
      accumulate_batch(model, batch, t);
      model.update();
    }
    for (Arena arena : {Arena::gradient, Arena::master, Arena::moment1}) {
      const View table = model.arena(arena).slice(0, vocab * config.dim, config.padded_vocab() * config.dim);
      const float* values = table.as<float>();
      CHECK(table.size() > 0);
      CHECK(std::all_of(values, values + table.size(), [](float value) { return value == 0; }));
    }
  }
}

TEST_CASE("model: a bad number stops every update from then on") {
  CpuDevice device(1);
  for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Llama model(device, tiny_model_config(), tiny_step_options(Precision::f32, 2));
    model.initialize(1);
    const TinyBatch batch = tiny_batch(2);
    accumulate_batch(model, batch);
    model.update();
    CHECK(model.results().halted == 0);
    const ParamTensor& tensor = model.layout().tensor("model.layers.1.mlp.up_proj.weight");
    const std::vector<float> good = model.download(Arena::master, tensor);
    std::vector<float> broken = good;
    broken[3] = bad;
    model.upload(Arena::master, tensor, broken);
    accumulate_batch(model, batch, 2);
    model.update();
    CHECK(model.results().halted == 1);
    model.upload(Arena::master, tensor, good);
    const auto weights = whole(model, Arena::master), moments = whole(model, Arena::moment2);
    accumulate_batch(model, batch, 2);  // all is well again, but the run has to stop
    model.update();
    CHECK(model.results().halted == 1);
    CHECK(whole(model, Arena::master) == weights);
    CHECK(whole(model, Arena::moment2) == moments);
  }
}

TEST_CASE("model: targets without a loss give no gradient and no NaN") {
  CpuDevice device(1);
  StepOptions options = tiny_step_options(Precision::f32, 2);
  options.pad_id = 7;
  Llama model(device, tiny_model_config(), options);
  model.initialize(1);
  TinyBatch batch = tiny_batch(2);
  std::fill(batch.targets.begin(), batch.targets.end(), 7u);
  model.set_scalars(tiny_scalars(model, 0, 1));
  model.load_batch(batch.ids.data(), batch.targets.data());
  model.accumulate(true);
  CHECK(model.results().loss_sum == 0);
  const std::vector<float> gradients = whole(model, Arena::gradient);
  CHECK(std::all_of(gradients.begin(), gradients.end(), [](float value) { return value == 0; }));
}

TEST_CASE("model: a loss is a mean over the valid targets of the whole batch, however it is split") {
  CpuDevice device(1);
  StepOptions options = tiny_step_options(Precision::f32, 1);
  options.pad_id = 7;
  TinyBatch batch = tiny_batch(2);
  std::replace(batch.targets.begin(), batch.targets.end(), 7u, 8u);
  for (size_t i = 3; i < 16; ++i)
    batch.targets[i] = 7;  // 3 valid targets in the first micro-step, 16 in the next
  std::vector<std::vector<float>> gradients;
  std::vector<float> losses;
  for (int64_t micro_batch : {1, 2}) {
    options.micro_batch = micro_batch;
    Llama model(device, tiny_model_config(), options);
    model.initialize(1);
    model.set_scalars(tiny_scalars(model, 19, 1));
    for (int64_t at = 0; at < 32; at += options.rows()) {
      model.load_batch(batch.ids.data() + at, batch.targets.data() + at);
      model.accumulate(at == 0);
    }
    gradients.push_back(whole(model, Arena::gradient));
    losses.push_back(model.results().loss_sum);
  }
  CHECK(losses[0] == doctest::Approx(losses[1]).epsilon(1e-6));
  CHECK(distance(gradients[0], gradients[1]) < 2e-6);
}

TEST_CASE("model: evaluating leaves the training state alone") {
  CpuDevice device(1);
  Llama model(device, tiny_model_config(), tiny_step_options(Precision::f32, 2));
  model.initialize(1);
  const TinyBatch batch = tiny_batch(2), other = tiny_batch(2, 99);
  const double loss = accumulate_batch(model, batch);
  const auto gradients = whole(model, Arena::gradient);
  model.load_batch(other.ids.data(), other.targets.data());
  model.evaluate(true);
  model.load_batch(batch.ids.data(), batch.targets.data());
  model.evaluate(false);
  CHECK(whole(model, Arena::gradient) == gradients);
  const StepResults results = model.results();
  CHECK(static_cast<double>(results.loss_sum) / 32 == loss);
  CHECK(static_cast<double>(results.eval_loss_sum) > static_cast<double>(results.loss_sum));
  model.load_batch(batch.ids.data(), batch.targets.data());
  model.evaluate(true);
  CHECK(model.results().eval_loss_sum == results.loss_sum);
}
