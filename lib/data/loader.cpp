#include "lib/data/loader.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/rng.h"

namespace tang {

namespace {

std::vector<fs::path> shards_in_folder(const fs::path& folder, DataSplit split) {
  std::vector<fs::path> all, wanted;
  bool any_split = false;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.empty() || name[0] == '.' || entry.path().extension() != ".bin") continue;
    const bool train = name.find("train") != std::string::npos, val = name.find("val") != std::string::npos;
    any_split = any_split || train || val;
    all.push_back(entry.path());
    if (split == DataSplit::train ? train : val) wanted.push_back(entry.path());
  }
  std::vector<fs::path> found = any_split ? wanted : all;
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::vector<fs::path> find_shards(const std::vector<std::string>& paths, DataSplit split,
                                  const std::string& what) {
  std::vector<fs::path> shards;
  for (const std::string& path : paths) {
    const bool folder = fs::is_directory(path);
    // A name that exists is itself, even if it holds a bracket.
    const std::vector<fs::path> found = folder             ? shards_in_folder(path, split)
                                        : fs::exists(path) ? std::vector<fs::path>{path}
                                                           : glob(path);
    if (found.empty() && folder) {
      fail_input("{}: the folder {} holds no *{}*.bin; make shards with tang-data prepare", what, path,
                 split == DataSplit::train ? "train" : "val");
    }
    if (found.empty()) fail_input("{}: no file at {}; make shards with tang-data prepare", what, path);
    shards.insert(shards.end(), found.begin(), found.end());
  }
  if (shards.empty()) fail_input("{} names no token shards", what);
  return shards;
}

TokenLoader::TokenLoader(LoaderOptions options) : options_(std::move(options)) {
  const int64_t length = options_.seq_len;
  if (length < 1) fail_input("data.seq_len must be at least 1, found {}", length);
  if (options_.vocab_size < 1)
    fail_input("model.vocab_size must be at least 1, found {}", options_.vocab_size);
  const char* what = options_.split == DataSplit::train ? "data.train" : "data.val";
  first_sequence_.push_back(0);
  for (const fs::path& path : find_shards(options_.paths, options_.split, what)) {
    const TokenShard& shard = shards_.emplace_back(path);
    if (shard.size() < length + 1) {
      fail_input("{}: one sequence of data.seq_len {} needs {} tokens, shard {} has {}", what, length,
                 length + 1, path.string(), shard.size());
    }
    first_sequence_.push_back(first_sequence_.back() + (shard.size() - 1) / length);
  }
  if (options_.shuffle && sequences_per_epoch() > UINT32_MAX) {
    fail_input("{}: {} sequences cannot be shuffled (2^32 at most); use data.shuffle=false", what,
               sequences_per_epoch());
  }
  row_.resize(static_cast<size_t>(length + 1));
}

int64_t TokenLoader::tokens() const {
  int64_t total = 0;
  for (const TokenShard& shard : shards_) total += shard.size();
  return total;
}

int64_t TokenLoader::sequence_in_epoch(int64_t sequence) {
  const int64_t epoch = epoch_of(sequence), index = sequence % sequences_per_epoch();
  if (!options_.shuffle) return index;
  if (epoch != order_epoch_) {
    order_ = permutation(static_cast<uint64_t>(sequences_per_epoch()), options_.seed,
                         static_cast<uint64_t>(epoch));
    order_epoch_ = epoch;
  }
  return order_[static_cast<size_t>(index)];
}

void TokenLoader::refuse_id(const TokenShard& shard, int64_t begin, const uint32_t* row) const {
  int64_t i = 0;
  while (row[i] < options_.vocab_size) ++i;
  fail_input(
      "{}: token id {} at offset {} is not below the vocabulary size {}; is model.vocab_size the "
      "tokenizer's?",
      shard.path().string(), row[i], begin + i, options_.vocab_size);
}

void TokenLoader::read_sequence(int64_t number, uint32_t* row) {
  const auto after = std::upper_bound(first_sequence_.begin(), first_sequence_.end(), number);
  const size_t index = static_cast<size_t>(after - first_sequence_.begin()) - 1;
  const TokenShard& shard = shards_[index];
  const int64_t begin = (number - first_sequence_[index]) * options_.seq_len;
  shard.read(begin, options_.seq_len + 1, row);
  if (*std::max_element(row, row + options_.seq_len + 1) >= options_.vocab_size) refuse_id(shard, begin, row);
}

void TokenLoader::batch(int64_t first, int64_t count, uint32_t* tokens, uint32_t* targets) {
  if (first < 0 || count < 0) fail_check("batch of {} sequences from {}", count, first);
  const size_t length = static_cast<size_t>(options_.seq_len);
  for (int64_t i = 0; i < count; ++i) {
    read_sequence(sequence_in_epoch(first + i), row_.data());
    std::copy_n(row_.begin(), length, tokens + static_cast<size_t>(i) * length);
    std::copy_n(row_.begin() + 1, length, targets + static_cast<size_t>(i) * length);
  }
}

namespace {

/// FNV-1a, 64 bits.
void hash_bytes(uint64_t& hash, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
}

}  // namespace

std::string TokenLoader::fingerprint() const {
  constexpr uint64_t samples = 64, sample_bytes = 4096;
  uint64_t hash = 0xcbf29ce484222325u;
  for (const TokenShard& shard : shards_) {
    const std::string name = shard.path().filename().string();
    const std::span<const std::byte> bytes = shard.bytes();
    const uint64_t size = bytes.size();
    hash_bytes(hash, std::as_bytes(std::span(name)));
    hash_bytes(hash, std::as_bytes(std::span(&size, 1)));
    for (uint64_t i = 0; i < samples; ++i) {  // evenly over the file, its header and its end included
      const uint64_t begin = size <= sample_bytes ? 0 : (size - sample_bytes) * i / (samples - 1);
      hash_bytes(hash, bytes.subspan(begin, std::min(size, sample_bytes)));
      if (size <= sample_bytes) break;
    }
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace tang
