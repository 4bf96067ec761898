// Tokenizers: bytes to ids and back. Lossless ones satisfy decode(encode(x)) == x for every byte string x.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/file.h"

namespace tang {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string kind() const = 0;       // "byte" or "sentencepiece"
  virtual std::string file_name() const = 0;  // what save() writes into a folder
  virtual int64_t vocab_size() const = 0;
  virtual uint32_t document_mark() const = 0;  // stands before each document
  virtual bool lossless() const = 0;  // false: decode gives the model's own normalisation of the text

  /// Appends the ids of `text` to `ids`. No marks are added. Safe to call from many threads.
  virtual void encode(std::string_view text, std::vector<uint32_t>& ids) const = 0;
  std::vector<uint32_t> encode(std::string_view text) const;

  /// The bytes of `ids`; marks and other control ids give none. An id past the vocabulary is an input error.
  virtual std::string decode(std::span<const uint32_t> ids) const = 0;

  /// Id of text the vocabulary lacks, or -1 when that cannot happen.
  virtual int64_t unknown_id() const { return -1; }

  /// Writes the file that load_tokenizer reads.
  virtual void save_as(const fs::path& file) const = 0;
  /// save_as(folder/file_name()), so that load_tokenizer(folder) gives this tokenizer again.
  void save(const fs::path& folder) const { save_as(folder / file_name()); }
};

/// 256 bytes and the document mark 256: a vocabulary of 257.
std::unique_ptr<Tokenizer> byte_tokenizer();

/// A SentencePiece .model, a tokenizer.json of this program, or a folder that holds one of them. Without
/// SentencePiece in this build a .model is a machine error.
std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& path);

/// Whether a folder holds a tokenizer file that load_tokenizer knows.
bool has_tokenizer(const fs::path& folder);

/// Whether this build can train and load SentencePiece models.
bool have_sentencepiece();

/// Gives the next piece of training text, or false at the end. The piece is valid until the next call.
using NextText = std::function<bool(std::string_view& text)>;

/// Trains a SentencePiece BPE of `vocab_size` (at least 300) on all the text that `next` gives, with options
/// that lose nothing: identity normalisation, no dummy prefix, no whitespace folding, byte pieces for what is
/// left. The same text gives the same model.
std::unique_ptr<Tokenizer> train_bpe(const NextText& next, int64_t vocab_size);

/// Cuts text into pieces of about `target` bytes whose encodings join to the encoding of the whole: after a
/// newline, else before a space, else (a run of 2 × target without either) between two characters.
std::vector<std::string_view> cut_text(std::string_view text, size_t target = 16384);

}  // namespace tang
