// What tang-generate does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tang {

struct GenerateRequest {
  std::string model;                  // a checkpoint or run folder
  std::optional<std::string> prompt;  // or
  std::string prompts;                // a file of them, one a line
  int64_t max_tokens = 128;
  double temperature = 0.8;
  int64_t top_k = 0;
  double top_p = 1;
  int64_t seed = 0;
  std::string device = "auto";
  std::string dtype = "auto";  // bf16 on a GPU, f32 on the CPU
  bool json = false;
};

/// Prints what the model writes after each prompt on stdout, and figures on stderr (with json: all on stdout,
/// an object a line). Every refusal is an input error.
int run_generate(const GenerateRequest& request);

}  // namespace tang
