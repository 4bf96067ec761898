// tang-data prepare: text to token shards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/json.h"
#include "lib/text/tokenizer.h"

namespace tang {

struct PrepareOptions {
  std::vector<std::string> inputs;  // files, globs, folders
  std::vector<std::string> val;     // the same, for validation; empty: val_fraction of the inputs
  std::string out;
  std::string tokenizer = "bpe";  // "byte", "bpe" (trained on the training text), or a file or folder to load
  std::string text_key = "text";
  int64_t vocab_size = 4096;  // of a trained BPE
  double val_fraction = 0.02;
  int64_t shard_tokens = 100'000'000;
  int64_t seed = 0;
};

/// Writes a dataset folder (dataset.h): the document mark, then the document's ids, for every document that
/// is not blank. Equal inputs and options give equal bytes, whatever the number of threads. Returns
/// dataset.json.
Json prepare(const PrepareOptions& options);

/// Trains a BPE on inputs (all of them, or val_fraction held back as prepare would).
std::unique_ptr<Tokenizer> train_tokenizer(const PrepareOptions& options);

/// A table of what prepare() or synthesize() wrote.
std::string describe_dataset(const Json& dataset);

}  // namespace tang
