// A model's shape as Hugging Face's config.json for Llama has it.
#pragma once

#include <optional>
#include <string>

#include "lib/base/json.h"
#include "lib/model/config.h"

namespace tang {

/// Hugging Face's config.json for this shape. `context`: the longest sequence trained on.
Json hf_config(const ModelConfig& config, int64_t context);

/// The first value of config.json that differs from the model's, as "rope_theta is 10000 there, 500000 here".
std::optional<std::string> difference_to_hf_config(const Json& json, const ModelConfig& config);

/// The shape that a config.json describes. `name` (the file) opens the input error that a missing value
/// raises, or one that this program's Llama does not have (biases, scaled RoPE, another activation).
ModelConfig config_from_hf(const Json& json, const std::string& name);

}  // namespace tang
