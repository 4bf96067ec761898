// eval.sample: what the model in training writes after a prompt. It borrows the working weights and has
// memory of its own, so no bit of the training changes.
#pragma once

#include <memory>
#include <string>

#include "lib/infer/generator.h"
#include "lib/model/llama.h"
#include "lib/text/tokenizer.h"
#include "lib/train/run_config.h"

namespace tang {

class TrainingSample {
 public:
  /// Takes its memory and reads the tokenizer (data.tokenizer, resolved).
  TrainingSample(const RunConfig& config, const Llama& model);

  /// The prompt and what the model, at its likeliest, writes after it, quoted on one line.
  std::string text();

  /// An input error when samples are wanted and there is no tokenizer, or its ids do not fit the model.
  static void check(const RunConfig& config);

  /// Device memory that it takes; 0 when eval.sample.every is 0.
  static int64_t memory_bytes(const RunConfig& config, DeviceKind kind);

 private:
  std::string prompt_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::vector<uint32_t>> prompts_;  // one
  GenerateOptions options_;
  std::unique_ptr<Generator> generator_;
};

}  // namespace tang
