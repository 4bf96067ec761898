#include "lib/train/training_sample.h"

#include "lib/base/error.h"
#include "lib/base/json.h"

namespace tang {

namespace {

/// The document mark and at most a token a byte, then the new ones.
DecoderOptions decoder_options(const RunConfig& config) {
  const auto& sample = config.eval.sample;
  return {.precision = config.precision(),
          .batch = 1,
          .capacity = static_cast<int64_t>(sample.prompt.size()) + 1 + sample.tokens};
}

std::unique_ptr<Tokenizer> fitting_tokenizer(const RunConfig& config) {
  if (config.data.tokenizer.empty()) {
    fail_input("eval.sample needs a tokenizer: give data.tokenizer, or eval.sample.every: 0");
  }
  auto tokenizer = load_tokenizer(config.data.tokenizer);
  if (tokenizer->vocab_size() > config.model.vocab_size) {
    fail_input("eval.sample: {} has {} ids, model.vocab_size is {}", config.data.tokenizer,
               tokenizer->vocab_size(), config.model.vocab_size);
  }
  return tokenizer;
}

}  // namespace

int64_t TrainingSample::memory_bytes(const RunConfig& config, DeviceKind kind) {
  if (config.eval.sample.every == 0) return 0;
  return plan_decoder(validated(config.model), decoder_options(config), kind).total();
}

void TrainingSample::check(const RunConfig& config) {
  if (config.eval.sample.every > 0) fitting_tokenizer(config);
}

TrainingSample::TrainingSample(const RunConfig& config, const Llama& model)
    : prompt_(config.eval.sample.prompt), tokenizer_(fitting_tokenizer(config)) {
  options_.max_tokens = config.eval.sample.tokens;
  options_.stop_id = tokenizer_->document_mark();
  prompts_ = {{tokenizer_->document_mark()}};
  tokenizer_->encode(prompt_, prompts_[0]);
  DecoderOptions options = decoder_options(config);
  options.vocab = tokenizer_->vocab_size();
  generator_ = std::make_unique<Generator>(model.device(), model.config(), model.weights(), options);
}

std::string TrainingSample::text() {
  const Generated found = generator_->run(prompts_, options_)[0];
  return Json(prompt_ + tokenizer_->decode(found.ids)).dump();
}

}  // namespace tang
