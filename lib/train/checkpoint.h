// Checkpoints: checkpoints/step-N with config.json and model.safetensors (f32 masters) as Hugging Face's
// Llama has them, optimizer.safetensors, state.json, and the tokenizer. A folder appears under its name only
// when everything in it is complete and on disk; state.json holds a checksum of every file, itself included.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/format/run_folder.h"
#include "lib/model/llama.h"
#include "lib/train/run_config.h"

namespace tang {

/// What a run needs besides the tensors to go on as if it had never stopped.
struct TrainState {
  int64_t step = 0;     // optimizer steps done
  int64_t updates = 0;  // of them, those that had a target to learn from: t of AdamW
  int64_t tokens = 0;
  int64_t next_sequence = 0;                  // of the run's order of sequences
  std::string fingerprint;                    // of the training data
  std::map<std::string, std::string> config;  // key -> value, as print_config has them
};

/// Writes `run`/checkpoints/step-N durably, then removes the oldest complete ones past `keep`.
fs::path save_checkpoint(const fs::path& run, Llama& model, const TrainState& state, int64_t keep,
                         const std::string& tokenizer);

/// The checksum of a checkpoint's weights file, as its state.json has it: equal exactly when all weights are.
std::string weights_checksum(const fs::path& folder);

/// Weights, moments and working copies into the model; the folder must have passed read_state.
void load_checkpoint(const fs::path& folder, Llama& model);

/// Only the weights, of any folder with config.json and model.safetensors (F32 or BF16) of the model's shape.
void load_weights(const fs::path& folder, Llama& model);

/// Reads state.json and holds every file against its checksum. An input error names what is missing or
/// damaged.
TrainState read_state(const fs::path& folder);

/// Removes what an interrupted save left behind.
void remove_leftovers(const fs::path& run);

}  // namespace tang
