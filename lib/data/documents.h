// Documents from text files and JSON lines, one at a time and in a fixed order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/file.h"
#include "lib/data/loader.h"

namespace tang {

/// A file to read: as a whole it is one document, as JSON lines (*.jsonl) each line is.
struct Source {
  fs::path path;
  uint64_t bytes = 0;
  bool json_lines = false;
};

/// The files that `paths` name: files, globs, and folders (all files below them that are not hidden, in byte
/// order). Compressed, binary and already tokenized files are input errors that say what the file is.
std::vector<Source> find_sources(const std::vector<std::string>& paths);

struct Document {
  std::string_view text;  // valid until the next call
  std::string origin;     // "a.txt", "b.jsonl line 12"
};

/// Gives every document that is not blank. A document is blank when it has no byte but white space; a line of
/// JSON lines that is blank is no document at all. A line that is no JSON object with a string under
/// `text_key` is an input error naming file and line.
class DocumentReader {
 public:
  DocumentReader(std::vector<Source> sources, std::string text_key);

  bool next(Document& document);
  int64_t blank() const { return blank_; }  // blank documents passed over so far

 private:
  bool open_next();
  bool next_line(std::string_view& line);

  std::vector<Source> sources_;
  std::string text_key_;
  size_t source_ = 0;  // the next one to open
  std::unique_ptr<MappedFile> file_;
  std::string_view rest_;
  int64_t line_ = 0, blank_ = 0;
  std::string text_;  // of a JSON line
};

/// How documents are shared between training and validation.
struct SplitRule {
  /// documents: each stretch of 1/fraction documents gives one, drawn by the seed, to validation, whole.
  /// tails: too few documents for that, so the last `fraction` of each goes there. none: all of them train.
  enum class Kind { none, documents, tails } kind = Kind::none;
  double fraction = 0;
  uint64_t seed = 0;

  bool to_validation(int64_t document) const;
};

std::string_view name_of(SplitRule::Kind kind);

/// The rule for these sources: reads only as many documents as it needs to tell whether there are 1/fraction.
SplitRule choose_split(const std::vector<Source>& sources, const std::string& text_key, double fraction,
                       uint64_t seed);

/// A document or a part of one, with its split. Each part is a document of its own in the shards.
struct Part {
  std::string_view text;
  std::string origin;
  DataSplit split = DataSplit::train;
};

/// Gives the parts of all documents in order.
class PartReader {
 public:
  PartReader(std::vector<Source> sources, const std::string& text_key, SplitRule rule);

  bool next(Part& part);
  int64_t blank() const { return reader_.blank(); }

 private:
  DocumentReader reader_;
  SplitRule rule_;
  int64_t document_ = 0;
  Part tail_;  // waits for its turn when its text is not empty
};

}  // namespace tang
