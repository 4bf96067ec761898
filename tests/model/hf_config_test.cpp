#include "lib/model/hf_config.h"

#include <doctest/doctest.h>

#include "lib/base/error.h"
#include "tests/model/tiny_model.h"

namespace tang {

TEST_CASE("hf_config: a shape comes back as it was written") {
  ModelConfig config = tiny_model_config();
  config.rope_theta = 500000;
  config.tie_embeddings = false;
  for (const char* activation : {"silu", "gelu", "gelu_tanh", "relu2", "x * sigmoid(1.702 * x)"}) {
    config.activation = activation;
    const Json json = hf_config(config, 128);
    const ModelConfig back = config_from_hf(json, "config.json");
    CHECK(back.activation == activation);
    CHECK_FALSE(difference_to_hf_config(json, back).has_value());
    CHECK(hf_config(back, 128).dump() == json.dump());
  }
}

TEST_CASE("hf_config: weights trained under another activation are another model") {
  ModelConfig config = tiny_model_config(), other = config;
  other.activation = "gelu_tanh";
  CHECK(difference_to_hf_config(hf_config(config, 16), other) ==
        "hidden_act is \"silu\" there, \"gelu_pytorch_tanh\" in this configuration");
  config.activation = "x * sigmoid(2 * x)", other.activation = "x * sigmoid(3 * x)";
  CHECK(difference_to_hf_config(hf_config(config, 16), other) ==
        "tang_activation is \"x * sigmoid(2 * x)\" there, \"x * sigmoid(3 * x)\" in this configuration");
  other.activation = "silu";
  CHECK(difference_to_hf_config(hf_config(config, 16), other).has_value());
}

TEST_CASE("hf_config: what this Llama lacks is refused by name") {
  const std::vector<std::pair<std::string, Json>> changes = {
      {"model_type", "gpt2"},   {"attention_bias", true},
      {"hidden_act", "relu"},   {"rope_scaling", Json::object({{"type", "linear"}})},
      {"hidden_size", nullptr}, {"num_attention_heads", 5}};
  for (const auto& change : changes) {
    Json json = hf_config(tiny_model_config(), 16);
    json[change.first] = change.second;
    INFO(change.first);
    CHECK_THROWS_AS(config_from_hf(json, "config.json"), Error);
  }
}

}  // namespace tang
