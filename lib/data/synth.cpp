#include "lib/data/synth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/data/dataset.h"

namespace tang {

namespace {

constexpr std::string_view symbols = "abcdefghijklmnopqrstuvwxyz .,\n";
constexpr int64_t symbol_count = symbols.size();
constexpr double spread = 2.0;  // of the log weights: about 2 nats a symbol, far from uniform's 3.4

/// Streams of the seed. Texts take the ones after.
constexpr uint64_t weight_stream = 0, first_text_stream = 1;

}  // namespace

MarkovSource::MarkovSource(int64_t order, uint64_t seed)
    : order_(order), contexts_(order == 2 ? symbol_count * symbol_count : symbol_count), seed_(seed) {
  if (order != 1 && order != 2) fail_input("the source's order must be 1 or 2, found {}", order);
  const Rng rng(seed, weight_stream);
  const size_t size = static_cast<size_t>(contexts_ * symbol_count);
  probability_.resize(size);
  cumulative_.resize(size);
  for (size_t i = 0; i < size; ++i) probability_[i] = std::exp(spread * rng.normal(i));
  for (size_t row = 0; row < size; row += symbol_count) {
    double* p = probability_.data() + row;
    const double sum = std::accumulate(p, p + symbol_count, 0.0);
    for (int64_t s = 0; s < symbol_count; ++s) p[s] /= sum;
    std::partial_sum(p, p + symbol_count, cumulative_.data() + row);
  }
  find_stationary();
  for (int64_t context = 0; context < contexts_; ++context) {
    const double* p = probability_.data() + context * symbol_count;
    for (int64_t s = 0; s < symbol_count; ++s) entropy_ -= stationary_[context] * p[s] * std::log(p[s]);
  }
}

int64_t MarkovSource::next_context(int64_t context, int64_t symbol) const {
  return (context * symbol_count + symbol) % contexts_;
}

/// Power iteration; it converges geometrically because every context can follow every other in `order` steps.
void MarkovSource::find_stationary() {
  std::vector<double> now(static_cast<size_t>(contexts_), 1.0 / static_cast<double>(contexts_)),
      then(now.size());
  double change = 1;
  for (int step = 0; step < 100'000 && change > 1e-14; ++step) {
    std::fill(then.begin(), then.end(), 0.0);
    for (int64_t context = 0; context < contexts_; ++context) {
      for (int64_t s = 0; s < symbol_count; ++s) {
        then[next_context(context, s)] += now[context] * probability_[context * symbol_count + s];
      }
    }
    change = 0;
    for (size_t i = 0; i < now.size(); ++i) change += std::abs(then[i] - now[i]);
    std::swap(now, then);
  }
  stationary_ = now;
}

std::string MarkovSource::sample(int64_t count, uint64_t stream) const {
  const Rng rng(seed_, first_text_stream + stream);
  const auto draw = [](const double* cumulative, int64_t size, double u) {
    const double* found = std::upper_bound(cumulative, cumulative + size, u);
    return std::min<int64_t>(found - cumulative, size - 1);  // the last sum may be a rounding below 1
  };
  std::vector<double> start(stationary_.size());
  std::partial_sum(stationary_.begin(), stationary_.end(), start.begin());
  int64_t context = draw(start.data(), contexts_, rng.uniform(0));
  std::string text(static_cast<size_t>(count), '\0');
  for (int64_t i = 0; i < count; ++i) {
    const double u = rng.uniform(static_cast<uint64_t>(i) + 1);
    const int64_t symbol = draw(cumulative_.data() + context * symbol_count, symbol_count, u);
    text[static_cast<size_t>(i)] = symbols[static_cast<size_t>(symbol)];
    context = next_context(context, symbol);
  }
  return text;
}

MarkovSource::Surprise MarkovSource::surprise(std::string_view text) const {
  std::array<int64_t, 256> index{};
  for (size_t s = 0; s < symbols.size(); ++s)
    index[static_cast<unsigned char>(symbols[s])] = static_cast<int64_t>(s);
  double sum = 0, squares = 0;
  int64_t context = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const int64_t symbol = index[static_cast<unsigned char>(text[i])];
    if (static_cast<int64_t>(i) >= order_) {
      const double nats = -std::log(probability_[context * symbol_count + symbol]);
      sum += nats;
      squares += nats * nats;
    }
    context = next_context(context, symbol);
  }
  const double count = std::max(1.0, static_cast<double>(text.size()) - static_cast<double>(order_));
  const double mean = sum / count;
  return {mean, std::sqrt(std::max(0.0, squares / count - mean * mean) / count)};
}

Json synthesize(const SynthOptions& options) {
  if (options.tokens < 2) fail_input("--tokens must be at least 2, found {}", options.tokens);
  if (options.val_tokens < -1) fail_input("--val-tokens must be -1 or more, found {}", options.val_tokens);
  const int64_t val_tokens =
      options.val_tokens < 0 ? std::max<int64_t>(1000, options.tokens / 10) : options.val_tokens;
  const MarkovSource source(options.order, static_cast<uint64_t>(options.seed));
  const std::unique_ptr<Tokenizer> tokenizer = byte_tokenizer();
  DatasetWriter writer(options.out, 256, max_shard_tokens);  // one shard each; no mark, so ids stay below 256
  MarkovSource::Surprise surprise;
  for (const DataSplit split : {DataSplit::train, DataSplit::val}) {
    const bool val = split == DataSplit::val;
    const std::string text = source.sample(val ? val_tokens : options.tokens, val);
    if (text.empty()) continue;
    writer.append(split, tokenizer->Tokenizer::encode(text));
    writer.counts(split).documents = 1;
    writer.counts(split).bytes = static_cast<int64_t>(text.size());
    write_file_atomic(fs::path(options.out) / (val ? "val.txt" : "train.txt"), text);
    if (val) surprise = source.surprise(text);
  }
  return writer.publish(*tokenizer, Json::object({{"entropy_nats", source.entropy()},
                                                  {"entropy_bits", source.entropy() / std::numbers::ln2},
                                                  {"val_nats", surprise.mean},
                                                  {"val_nats_standard_error", surprise.standard_error},
                                                  {"source", Json::object({{"kind", "markov"},
                                                                           {"order", options.order},
                                                                           {"symbols", symbol_count},
                                                                           {"seed", options.seed}})}}));
}

}  // namespace tang
