#include "lib/data/synth.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lib/base/error.h"
#include "lib/data/dataset.h"
#include "lib/data/loader.h"
#include "tests/temporary_folder.h"

using namespace tang;

namespace {

/// Entropy of the next symbol given the `order` before it, from counts alone.
double counted_entropy(const std::string& text, size_t order) {
  std::map<std::string, double> contexts, grams;
  for (size_t i = order; i < text.size(); ++i) {
    contexts[text.substr(i - order, order)] += 1;
    grams[text.substr(i - order, order + 1)] += 1;
  }
  double nats = 0;
  for (const auto& [gram, count] : grams) nats -= count * std::log(count / contexts[gram.substr(0, order)]);
  return nats / static_cast<double>(text.size() - order);
}

}  // namespace

TEST_CASE("data: the printed entropy is what counting the source's text gives") {
  constexpr int64_t count = 400'000;
  for (const int64_t order : {1, 2}) {
    const MarkovSource source(order, 5);
    const std::string text = source.sample(count, 0);
    const MarkovSource::Surprise surprise = source.surprise(text);
    CHECK(std::abs(surprise.mean - source.entropy()) < 4 * surprise.standard_error);
    // Counting underestimates by about (free parameters) / (2 count).
    const double bias = std::pow(30, order) * 29 / (2.0 * count);
    CHECK(std::abs(counted_entropy(text, static_cast<size_t>(order)) - source.entropy()) <
          4 * surprise.standard_error + bias);
    CHECK(counted_entropy(text, static_cast<size_t>(order) - 1) > source.entropy() + 0.3);  // contexts matter
    CHECK(surprise.standard_error < 0.005);
  }
}

TEST_CASE("data: a source is its seed's, and its texts are independent") {
  const MarkovSource source(1, 5);
  CHECK(MarkovSource(1, 5).sample(1000, 0) == source.sample(1000, 0));
  CHECK(source.sample(500, 0) == source.sample(1000, 0).substr(0, 500));
  CHECK(source.sample(1000, 1) != source.sample(1000, 0));
  CHECK(MarkovSource(1, 6).entropy() != source.entropy());
  CHECK_THROWS_WITH_AS(MarkovSource(3, 0), doctest::Contains("must be 1 or 2, found 3"), Error);
}

TEST_CASE("data: synth writes shards of the text's bytes and the figures beside them") {
  const TemporaryFolder folder;
  const Json dataset = synthesize({.out = folder.path().string(), .tokens = 5000, .seed = 3});
  for (const char* split : {"train", "val"}) {
    const TokenShard shard(folder / (std::string(split) + "_000000.bin"));
    const std::string text = read_file(folder / (std::string(split) + ".txt"));
    CHECK(shard.size() == (split == std::string("train") ? 5000 : 1000));
    std::vector<uint32_t> ids(static_cast<size_t>(shard.size()));
    shard.read(0, shard.size(), ids.data());
    CHECK(load_tokenizer(folder)->decode(ids) == text);
    CHECK(*std::max_element(ids.begin(), ids.end()) < 256);
  }
  CHECK(read_file(folder / "train.txt").substr(0, 1000) != read_file(folder / "val.txt"));
  const double nats = dataset.at("entropy_nats").as_double();
  CHECK(nats == MarkovSource(1, 3).entropy());
  CHECK(dataset.at("entropy_bits").as_double() == doctest::Approx(nats / std::log(2.0)));
  CHECK(std::abs(dataset.at("val_nats").as_double() - nats) <
        5 * dataset.at("val_nats_standard_error").as_double());
  CHECK(TokenLoader({.paths = {folder.path().string()}, .seq_len = 64, .vocab_size = 256})
            .sequences_per_epoch() == 78);

  const std::string before = read_file(folder / "dataset.json");
  synthesize({.out = folder.path().string(), .tokens = 5000, .seed = 3});
  CHECK(read_file(folder / "dataset.json") == before);
  CHECK_THROWS_AS(synthesize({.out = folder.path().string(), .tokens = 1}), Error);
  CHECK_THROWS_AS(synthesize({.out = folder.path().string(), .tokens = 100, .val_tokens = -2}), Error);
}
