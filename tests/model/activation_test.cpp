#include <doctest/doctest.h>

#include "lib/base/error.h"
#include "tests/model/tiny_model.h"

using namespace tang;

TEST_CASE("model: the gradient is the loss's slope under every activation") {
  CpuDevice device(1);
  const TinyBatch batch = tiny_batch(2);
  for (const char* activation : {"gelu", "gelu_tanh", "relu2", "x * sigmoid(1.702 * x)"}) {
    ModelConfig config = tiny_model_config();
    config.activation = activation;
    CAPTURE(config.activation);
    Llama model(device, config, tiny_step_options(Precision::f32, 2));
    model.initialize(5);
    for (const ParamTensor& tensor : model.layout().tensors) {
      accumulate_batch(model, batch);
      const std::vector<float> gradient = model.download(Arena::gradient, tensor);
      const std::vector<float> weights = model.download(Arena::master, tensor);
      double norm = 0;
      for (const float g : gradient) norm += static_cast<double>(g) * static_cast<double>(g);
      norm = std::sqrt(norm);
      REQUIRE(norm > 0);
      const auto loss_at = [&](double step) {
        std::vector<float> moved = weights;
        for (size_t i = 0; i < moved.size(); ++i)
          moved[i] += static_cast<float>(step * static_cast<double>(gradient[i]) / norm);
        model.upload(Arena::master, tensor, moved);
        return accumulate_batch(model, batch);
      };
      constexpr double h = 1e-2;  // the loss carries about 1e-6 of rounding
      const double slope = (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
      model.upload(Arena::master, tensor, weights);
      CAPTURE(tensor.name);
      CHECK(std::abs(slope - norm) < 0.01 * norm + 2e-4);
    }
  }
}

TEST_CASE("model: recomputing changes no bit under a traced activation either") {
  CpuDevice device(1);
  ModelConfig config = tiny_model_config();
  config.activation = "gelu";
  std::vector<float> wanted;
  for (Recompute recompute : {Recompute::none, Recompute::norms, Recompute::swiglu, Recompute::block}) {
    StepOptions options = tiny_step_options(Precision::bf16, 2);
    options.recompute = recompute;
    Llama model(device, config, options);
    model.initialize(1);
    accumulate_batch(model, tiny_batch(4));
    if (wanted.empty()) wanted = whole(model, Arena::gradient);
    CHECK(whole(model, Arena::gradient) == wanted);
  }
}

TEST_CASE("model: silu as an expression is silu but for rounding, and a mistake is refused with its column") {
  CpuDevice device(1);
  double loss[2];
  for (int i : {0, 1}) {
    ModelConfig config = tiny_model_config();
    if (i == 1) config.activation = "x / (1 + exp(-x))";
    Llama model(device, config, tiny_step_options(Precision::f32, 2));
    model.initialize(1);
    loss[i] = accumulate_batch(model, tiny_batch(2));
  }
  CHECK(std::abs(loss[0] - loss[1]) < 1e-6);
  ModelConfig config = tiny_model_config();
  config.activation = "x * sigmod(x)";
  CHECK_THROWS_WITH_AS(validated(config),
                       doctest::Contains("model.activation: expression 'x * sigmod(x)', column 5"), Error);
}
