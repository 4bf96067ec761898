#include "lib/model/hf_config.h"

#include <doctest/doctest.h>

#include "lib/base/error.h"
#include "tests/model/tiny_model.h"

namespace tang {

TEST_CASE("hf_config: a shape comes back as it was written") {
  ModelConfig config = tiny_model_config();
  config.rope_theta = 500000;
  config.tie_embeddings = false;
  const Json json = hf_config(config, 128);
  const ModelConfig back = config_from_hf(json, "config.json");
  CHECK_FALSE(difference_to_hf_config(json, back).has_value());
  CHECK(hf_config(back, 128).dump() == json.dump());
}

TEST_CASE("hf_config: what this Llama lacks is refused by name") {
  const std::vector<std::pair<std::string, Json>> changes = {
      {"model_type", "gpt2"},
      {"attention_bias", true},
      {"hidden_act", "relu"},
      {"rope_scaling", Json::object({{"type", "linear"}})},
      {"hidden_size", nullptr},
      {"num_attention_heads", 5}};
  for (const auto& change : changes) {
    Json json = hf_config(tiny_model_config(), 16);
    json[change.first] = change.second;
    INFO(change.first);
    CHECK_THROWS_AS(config_from_hf(json, "config.json"), Error);
  }
}

}  // namespace tang
