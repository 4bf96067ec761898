// tang-data synth: text from a small random Markov source whose entropy per token is known exactly: no
// model's validation loss can stay below it by more than the sampling error, and a good one comes close.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.h"

namespace tang {

/// A Markov chain over 30 printable symbols: each symbol depends on the `order` symbols before it. Every
/// transition is possible; their probabilities are log-normal weights drawn from the seed.
class MarkovSource {
 public:
  /// `order`: 1 or 2.
  MarkovSource(int64_t order, uint64_t seed);

  /// Entropy per symbol in nats: the rows' entropies weighted by the chain's stationary distribution.
  double entropy() const { return entropy_; }

  /// `count` symbols starting from the stationary distribution. Another `stream` is an independent text.
  std::string sample(int64_t count, uint64_t stream) const;

  struct Surprise {
    double mean = 0;            // nats per symbol
    double standard_error = 0;  // of the mean, as an estimate of entropy(), symbols taken as independent
  };
  /// What the text cost the source itself: -ln p of each symbol after the first `order`. The floor for this
  /// very text.
  Surprise surprise(std::string_view text) const;

 private:
  void find_stationary();
  /// The context after `symbol` follows `context`; contexts are the last `order` symbols in base 30.
  int64_t next_context(int64_t context, int64_t symbol) const;

  int64_t order_, contexts_;
  uint64_t seed_;
  std::vector<double> probability_;  // [contexts, symbols]
  std::vector<double> cumulative_;   // [contexts, symbols]
  std::vector<double> stationary_;   // [contexts]
  double entropy_ = 0;
};

struct SynthOptions {
  std::string out;
  int64_t tokens = 0;       // of train_000000.bin
  int64_t val_tokens = -1;  // -1: a tenth of `tokens`, at least 1000
  int64_t order = 1;
  int64_t seed = 0;
};

/// Writes a dataset folder (dataset.h) whose ids are the text's bytes, without document marks, and the text
/// beside it as train.txt and val.txt. Returns dataset.json, with entropy_nats, entropy_bits and val_nats
/// (surprise of val.txt).
Json synthesize(const SynthOptions& options);

}  // namespace tang
