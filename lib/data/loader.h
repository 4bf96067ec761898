// Batches of token sequences from shards. What sequence number n of a run holds is a pure function of the
// files, the options and n, so resuming needs one number and no other state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/format/token_shard.h"

namespace tang {

enum class DataSplit { train, val };

/// The shards that `paths` name, in order: each a file, a glob (matches in byte order), or a folder (its
/// *train*.bin or *val*.bin, by split; all of its .bin when no name has either word). Nothing found is an
/// input error naming the path. `what` ("data.train") opens messages.
std::vector<fs::path> find_shards(const std::vector<std::string>& paths, DataSplit split,
                                  const std::string& what);

struct LoaderOptions {
  std::vector<std::string> paths;
  DataSplit split = DataSplit::train;
  int64_t seq_len = 0;     // T
  int64_t vocab_size = 0;  // V: every id must be below it
  bool shuffle = true;     // one seeded permutation of all sequences per epoch; false: file order
  uint64_t seed = 0;
};

/// Cuts each shard into floor((tokens - 1) / T) sequences of T inputs and T targets (the inputs moved on by
/// one); sequences may cross documents but not shards. Not thread-safe.
class TokenLoader {
 public:
  /// Maps and checks all shards. A shard of fewer than T + 1 tokens is an input error with both counts.
  explicit TokenLoader(LoaderOptions options);

  int64_t seq_len() const { return options_.seq_len; }
  int64_t sequences_per_epoch() const { return first_sequence_.back(); }
  int64_t tokens() const;  // ids in all shards
  int64_t epoch_of(int64_t sequence) const { return sequence / sequences_per_epoch(); }

  /// Sequences [first, first + count) of the run, counted from 0 over all epochs: tokens and targets are u32
  /// [count, T]. An id >= V is an input error naming shard, offset, id and V.
  void batch(int64_t first, int64_t count, uint32_t* tokens, uint32_t* targets);

  /// 16 hex digits over names (without folders), sizes, headers and sampled content of the shards, in order:
  /// equal fingerprints mean that a checkpoint's position still points at the same text.
  std::string fingerprint() const;

 private:
  int64_t sequence_in_epoch(int64_t sequence);
  void read_sequence(int64_t number, uint32_t* row);
  [[noreturn]] void refuse_id(const TokenShard& shard, int64_t begin, const uint32_t* row) const;

  LoaderOptions options_;
  std::vector<TokenShard> shards_;
  std::vector<int64_t> first_sequence_;  // of each shard within an epoch, then the total
  std::vector<uint32_t> order_;          // the permutation of epoch order_epoch_
  int64_t order_epoch_ = -1;
  std::vector<uint32_t> row_;  // T + 1 ids
};

}  // namespace tang
