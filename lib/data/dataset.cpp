#include "lib/data/dataset.h"

#include <algorithm>

#include "lib/base/error.h"

namespace tang {

Json SplitCounts::json() const {
  return Json::object(
      {{"documents", documents}, {"tokens", tokens}, {"bytes", bytes}, {"shards", Json::list(shards)}});
}

DatasetWriter::DatasetWriter(fs::path folder, int64_t vocab_size, int64_t shard_tokens)
    : folder_(std::move(folder)), vocab_size_(vocab_size), shard_tokens_(shard_tokens) {
  if (shard_tokens < 1 || shard_tokens > max_shard_tokens) {
    fail_input("a shard holds from 1 to {} tokens, asked for {}", max_shard_tokens, shard_tokens);
  }
  if (fs::exists(folder_) && !fs::is_directory(folder_)) fail_input("{} is not a folder", folder_.string());
  fs::create_directories(folder_);
  find_earlier();
}

void DatasetWriter::find_earlier() {
  if (fs::exists(folder_ / dataset_file)) {
    const Json old = Json::parse(read_file(folder_ / dataset_file), (folder_ / dataset_file).string());
    for (const char* split : {"train", "val"}) {
      const Json* counts = old.find(split);
      const Json* shards = counts == nullptr ? nullptr : counts->find("shards");
      if (shards == nullptr) continue;
      for (const Json& shard : shards->items()) earlier_.push_back(shard.as_string());
    }
    const Json* tokenizer = old.find("tokenizer");
    if (const Json* file = tokenizer == nullptr ? nullptr : tokenizer->find("file")) {
      earlier_.push_back(file->as_string());
    }
    for (const std::string& name : earlier_) {  // they will be removed: never outside the folder
      if (fs::path(name).filename() != name) fail_input("{}: strange file name '{}'", folder_.string(), name);
    }
  }
  for (const DataSplit split : {DataSplit::train, DataSplit::val}) {
    for (const fs::path& path :
         glob((folder_ / (split == DataSplit::train ? "train_*.bin" : "val_*.bin")).string())) {
      if (std::find(earlier_.begin(), earlier_.end(), path.filename()) == earlier_.end()) {
        fail_input(
            "{} is not from an earlier tang-data run (no {} lists it); remove it or choose another folder",
            path.string(), dataset_file);
      }
    }
  }
}

void DatasetWriter::append(DataSplit which, std::span<const uint32_t> ids) {
  Split& split = splits_[which == DataSplit::val];
  split.counts.tokens += static_cast<int64_t>(ids.size());
  while (!ids.empty()) {
    if (split.writers.empty() || split.writers.back().size() == shard_tokens_) {
      if (!split.writers.empty()) split.writers.back().close();
      const std::string name = fmt::format("{}_{:06}.bin", split.name, split.writers.size());
      split.writers.emplace_back(folder_ / name, vocab_size_);
      split.counts.shards.push_back(name);
    }
    const size_t room = static_cast<size_t>(shard_tokens_ - split.writers.back().size());
    const size_t count = std::min(room, ids.size());
    split.writers.back().append(ids.first(count));
    ids = ids.subspan(count);
  }
}

Json DatasetWriter::publish(const Tokenizer& tokenizer, const Json& description) {
  Json dataset = Json::object({{"format", "tang dataset"}, {"version", 1}, {"vocab_size", vocab_size_}});
  dataset["tokenizer"] = Json::object({{"kind", tokenizer.kind()},
                                       {"file", tokenizer.file_name()},
                                       {"vocab_size", tokenizer.vocab_size()},
                                       {"document_mark", tokenizer.document_mark()},
                                       {"lossless", tokenizer.lossless()}});
  for (const Split& split : splits_) dataset[split.name] = split.counts.json();
  for (const auto& [name, value] : description.members()) dataset[name] = value;

  std::vector<std::string> fresh = {tokenizer.file_name()};
  for (Split& split : splits_) {
    for (TokenShardWriter& writer : split.writers) writer.close();
    fresh.insert(fresh.end(), split.counts.shards.begin(), split.counts.shards.end());
  }
  fs::remove(folder_ / dataset_file);  // from here on the folder is not complete
  for (const std::string& name : earlier_) {
    if (std::find(fresh.begin(), fresh.end(), name) == fresh.end()) fs::remove(folder_ / name);
  }
  for (Split& split : splits_) {
    for (TokenShardWriter& writer : split.writers) writer.commit();
  }
  tokenizer.save(folder_);
  write_file_atomic(folder_ / dataset_file, dataset.dump(2) + "\n");
  return dataset;
}

}  // namespace tang
