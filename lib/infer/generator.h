// Text generation, tokens in and tokens out: prompts into the caches, then a token of each at a time until a
// stop token or a limit.
#pragma once

#include <functional>

#include "lib/infer/decoder.h"
#include "lib/infer/sampler.h"

namespace tang {

struct GenerateOptions {
  int64_t max_tokens = 128;  // new ones of each prompt
  int64_t stop_id = -1;      // ends a text and is not part of it; -1: none
  Sampling sampling;
};

/// What became of a prompt.
struct Generated {
  std::vector<uint32_t> ids;  // the new ones
  bool stopped = false;       // at stop_id, not at the limit
};

struct GenerateTimes {
  double first_token_s = 0;  // from the call to the first token
  double total_s = 0;
  int64_t tokens = 0;  // of all sequences
  int64_t steps = 0;   // that gave them
};

class Generator {
 public:
  /// As Decoder: `weights` is borrowed.
  Generator(Device& device, const ModelConfig& config, const View& weights, const DecoderOptions& options);

  /// `sequence` has a new token. Called in order within a sequence.
  using OnToken = std::function<void(int64_t sequence, uint32_t id)>;
  /// `sequence` is complete.
  using OnEnd = std::function<void(int64_t sequence, bool stopped)>;

  /// At most B prompts of at least one token. A text depends on its prompt, the options and the weights, not
  /// on what stands beside it: token number n of a text takes random number n of the seed. An input error
  /// when a prompt and max_tokens do not fit the capacity.
  std::vector<Generated> run(std::span<const std::vector<uint32_t>> prompts, const GenerateOptions& options,
                             const OnToken& on_token = nullptr, const OnEnd& on_end = nullptr);

  /// On CUDA: loads every kernel and captures the graphs, so that the first call is like any other.
  void warm_up();

  const GenerateTimes& times() const { return times_; }  // of the last run
  const Decoder& decoder() const { return decoder_; }

 private:
  struct Run;
  void run_greedy(Run& run);
  void take_from_ring(Run& run, const uint32_t* ring) const;
  void run_sampled(Run& run);

  static constexpr int64_t slots = 2;  // bursts, or single greedy steps, on their way at once

  Decoder decoder_;
  std::shared_ptr<void> host_tokens_;  // pinned u32 [slots, B, R]
  GenerateTimes times_;
};

}  // namespace tang
