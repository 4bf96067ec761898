#include "lib/model/hf_config.h"

#include "lib/base/error.h"

namespace tang {

namespace {

/// Ours, and Hugging Face's name for the same function.
constexpr std::pair<const char*, const char*> activations[] = {
    {"silu", "silu"}, {"gelu", "gelu"}, {"gelu_tanh", "gelu_pytorch_tanh"}, {"relu2", "relu2"}};

/// An expression has no name there: config.json then says "custom", and holds it under a key of our own.
constexpr const char* custom = "custom";
constexpr const char* expression_key = "tang_activation";

const char* hf_activation(const std::string& activation) {
  for (const auto& [ours, theirs] : activations) {
    if (activation == ours) return theirs;
  }
  return custom;
}

std::string activation_from_hf(const Json& json, const std::string& name) {
  const Json* act = json.find("hidden_act");
  if (act == nullptr || act->is_null()) return "silu";
  const Json* expression = json.find(expression_key);
  if (act->as_string() == custom && expression != nullptr) return expression->as_string();
  for (const auto& [ours, theirs] : activations) {
    if (act->as_string() == theirs) return ours;
  }
  fail_input("{}: hidden_act is {}, this program has silu, gelu, gelu_pytorch_tanh and relu2", name,
             act->dump());
}

}  // namespace

Json hf_config(const ModelConfig& c, int64_t context) {
  Json json = Json::object(
      {{"architectures", Json::array({"LlamaForCausalLM"})},
       {"model_type", "llama"},
       {"hidden_act", hf_activation(c.activation)},
       {"hidden_size", c.dim},
       {"intermediate_size", c.ffn_dim},
       {"num_hidden_layers", c.n_layers},
       {"num_attention_heads", c.n_heads},
       {"num_key_value_heads", c.n_kv_heads},
       {"head_dim", c.head_dim},
       {"vocab_size", c.vocab_size},
       {"max_position_embeddings", context},
       {"rms_norm_eps", c.norm_eps},
       {"rope_theta", c.rope_theta},
       {"rope_scaling", nullptr},
       {"rope_parameters", Json::object({{"rope_type", "default"}, {"rope_theta", c.rope_theta}})},
       {"attention_bias", false},
       {"mlp_bias", false},
       {"tie_word_embeddings", c.tie_embeddings},
       {"initializer_range", c.init_std},
       {"torch_dtype", "float32"},
       {"dtype", "float32"}});
  if (hf_activation(c.activation) == custom) json[expression_key] = c.activation;
  return json;
}

std::optional<std::string> difference_to_hf_config(const Json& json, const ModelConfig& config) {
  // initializer_range and the context length do not change what the weights mean.
  static const char* const keys[] = {"hidden_size",         "intermediate_size",   "num_hidden_layers",
                                     "num_attention_heads", "num_key_value_heads", "head_dim",
                                     "vocab_size",          "rms_norm_eps",        "rope_theta",
                                     "tie_word_embeddings", "hidden_act",          expression_key};
  const Json here = hf_config(config, 0);
  for (const char* key : keys) {
    const Json* found = json.find(key);
    const Json* mine = here.find(key);
    if (found == nullptr || found->is_null() || mine == nullptr) continue;
    const bool equal =
        found->is_number() ? found->as_double() == mine->as_double() : found->dump() == mine->dump();
    if (!equal) {
      return fmt::format("{} is {} there, {} in this configuration", key, found->dump(), mine->dump());
    }
  }
  return std::nullopt;
}

namespace {

/// The member, or nullptr where it is missing or null.
const Json* given(const Json& json, const char* key) {
  const Json* found = json.find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

void refuse_what_differs(const Json& json, const std::string& name) {
  const auto expect = [&](const char* key, const Json& wanted) {
    const Json* found = given(json, key);
    if (found != nullptr && found->dump() != wanted.dump()) {
      fail_input("{}: {} is {}, this program's Llama has {}", name, key, found->dump(), wanted.dump());
    }
  };
  expect("model_type", "llama");
  expect("attention_bias", false);
  expect("mlp_bias", false);
  if (const Json* scaling = given(json, "rope_scaling")) {
    fail_input("{}: rope_scaling is {}; only plain RoPE is read", name, scaling->dump());
  }
  const Json* rope = given(json, "rope_parameters");
  const Json* type = rope == nullptr ? nullptr : given(*rope, "rope_type");
  if (type != nullptr && type->dump() != Json("default").dump()) {
    fail_input("{}: rope_type is {}; only plain RoPE is read", name, type->dump());
  }
}

}  // namespace

ModelConfig config_from_hf(const Json& json, const std::string& name) {
  refuse_what_differs(json, name);
  const auto number = [&](const char* key) {
    const Json* found = given(json, key);
    if (found == nullptr) fail_input("{}: {} is missing", name, key);
    return found->as_int();
  };
  const auto real = [&](const Json& from, const char* key, double otherwise) {
    const Json* found = given(from, key);
    return found == nullptr ? otherwise : found->as_double();
  };
  ModelConfig config{.dim = number("hidden_size"),
                     .n_layers = number("num_hidden_layers"),
                     .n_heads = number("num_attention_heads"),
                     .ffn_dim = number("intermediate_size"),
                     .vocab_size = number("vocab_size"),
                     .norm_eps = real(json, "rms_norm_eps", 1e-6),
                     .activation = activation_from_hf(json, name)};
  if (given(json, "num_key_value_heads") != nullptr) config.n_kv_heads = number("num_key_value_heads");
  if (given(json, "head_dim") != nullptr) config.head_dim = number("head_dim");
  const Json* rope = given(json, "rope_parameters");
  config.rope_theta = real(json, "rope_theta", rope == nullptr ? 10000 : real(*rope, "rope_theta", 10000));
  const Json* tied = given(json, "tie_word_embeddings");
  config.tie_embeddings = tied != nullptr && tied->as_bool();
  config.init_std = real(json, "initializer_range", config.init_std);
  config = resolve(config);
  if (const auto problem = problem_in(config)) {
    fail_input("{}: {}: {}", name, problem->key, problem->text);
  }
  return config;
}

}  // namespace tang
