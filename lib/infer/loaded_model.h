// A trained model, read for use: shape, weights on a device, tokenizer.
#pragma once

#include <memory>

#include "lib/base/file.h"
#include "lib/device/device.h"
#include "lib/model/config.h"
#include "lib/text/tokenizer.h"

namespace tang {

struct LoadedModel {
  ModelConfig config;
  int64_t context = 0;  // the longest sequence trained on; 0: not said
  std::unique_ptr<Tokenizer> tokenizer;
  Precision precision = Precision::f32;
  Buffer memory;
  View weights;  // an arena in the precision's dtype, as param_layout has it
};

/// The checkpoint folder that `path` means: itself, or the newest whole checkpoint of a run folder.
fs::path find_checkpoint(const fs::path& path);

/// Reads config.json, model.safetensors (F32 or BF16; bf16 weights are rounded to nearest even) and the
/// tokenizer. What is missing or does not fit is an input error naming the file.
LoadedModel load_model(Device& device, const fs::path& folder, Precision precision);

}  // namespace tang
