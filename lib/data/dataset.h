// A folder of token shards: train_%06d.bin, val_%06d.bin, the tokenizer's file, and dataset.json that says
// what they are. dataset.json is written last: a folder without it is not complete.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/json.h"
#include "lib/data/loader.h"
#include "lib/text/tokenizer.h"

namespace tang {

inline constexpr const char* dataset_file = "dataset.json";

/// The shards and figures of one split.
struct SplitCounts {
  int64_t documents = 0, tokens = 0;
  int64_t bytes = 0;  // of text
  std::vector<std::string> shards;

  Json json() const;
};

/// Writes a dataset. Nothing appears in the folder before publish(), which replaces what an earlier
/// dataset.json there lists; shards that no dataset.json lists are somebody else's and an input error.
class DatasetWriter {
 public:
  /// Creates the folder. `shard_tokens`: the most tokens of one shard.
  DatasetWriter(fs::path folder, int64_t vocab_size, int64_t shard_tokens = 100'000'000);

  void append(DataSplit split, std::span<const uint32_t> ids);
  /// Documents and bytes are the caller's to count; tokens and shards are counted here.
  SplitCounts& counts(DataSplit split) { return splits_[split == DataSplit::val].counts; }

  /// Puts shards, tokenizer and dataset.json (vocab_size, the splits and the members of `description`) in
  /// place. Returns dataset.json's content.
  Json publish(const Tokenizer& tokenizer, const Json& description);

 private:
  struct Split {
    const char* name;
    SplitCounts counts;
    std::vector<TokenShardWriter> writers;
  };

  void find_earlier();

  fs::path folder_;
  int64_t vocab_size_, shard_tokens_;
  Split splits_[2] = {{"train", {}, {}}, {"val", {}, {}}};
  std::vector<std::string> earlier_;  // files that an earlier dataset.json lists
};

}  // namespace tang
