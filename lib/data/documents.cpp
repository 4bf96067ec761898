#include "lib/data/documents.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/rng.h"
#include "lib/format/sniff.h"

namespace tang {

namespace {

void add_source(std::vector<Source>& sources, const fs::path& path) {
  const MappedFile file(path);
  const FileKind kind = sniff(path, file.bytes());
  switch (kind) {
    case FileKind::empty:
    case FileKind::text:
    case FileKind::json_lines:
    case FileKind::unknown:  // text in another encoding, say: it is kept byte for byte
      break;
    case FileKind::token_shard:
      fail_input("{} holds tokens already: give it to data.train", path.string());
    case FileKind::gzip:
    case FileKind::zstd:
      fail_input("{} is {}: unpack it first", path.string(), describe(kind));
    case FileKind::json:
      fail_input("{} is {}: put one object a line into a .jsonl file", path.string(), describe(kind));
    default:
      fail_input("{} is {}; text or .jsonl is expected", path.string(), describe(kind));
  }
  sources.push_back({path, file.bytes().size(), path.extension() == ".jsonl"});
}

bool hidden(const fs::path& path) { return path.filename().string().front() == '.'; }

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (auto at = fs::recursive_directory_iterator(folder); at != fs::recursive_directory_iterator(); ++at) {
    if (hidden(at->path())) {
      at.disable_recursion_pending();
    } else if (at->is_regular_file()) {
      files.push_back(at->path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

}  // namespace

std::vector<Source> find_sources(const std::vector<std::string>& paths) {
  std::vector<Source> sources;
  for (const std::string& path : paths) {
    std::vector<fs::path> files = {path};
    if (fs::is_directory(path)) {
      files = files_below(path);
    } else if (!fs::exists(path)) {
      files = glob(path);
    }
    if (files.empty()) fail_input("no text at {}", path);
    for (const fs::path& file : files) add_source(sources, file);
  }
  if (sources.empty()) fail_input("no input files given");
  return sources;
}

DocumentReader::DocumentReader(std::vector<Source> sources, std::string text_key)
    : sources_(std::move(sources)), text_key_(std::move(text_key)) {}

bool DocumentReader::open_next() {
  if (source_ == sources_.size()) return false;
  file_ = std::make_unique<MappedFile>(sources_[source_++].path);
  rest_ = {reinterpret_cast<const char*>(file_->bytes().data()), file_->bytes().size()};
  line_ = 0;
  return true;
}

bool DocumentReader::next_line(std::string_view& line) {
  while (!rest_.empty()) {
    const size_t end = std::min(rest_.find('\n'), rest_.size() - 1) + 1;
    line = rest_.substr(0, end);
    rest_.remove_prefix(end);
    ++line_;
    if (!is_blank(line)) return true;
  }
  return false;
}

bool DocumentReader::next(Document& document) {
  for (;;) {
    std::string_view line;
    if (file_ != nullptr && sources_[source_ - 1].json_lines && next_line(line)) {
      document.origin = fmt::format("{} line {}", file_->path().string(), line_);
      const Json row = Json::parse(line, document.origin);
      const Json* text = row.find(text_key_);
      if (text == nullptr || !text->is_string()) {
        fail_input("{}: expected an object with a string under '{}'", document.origin, text_key_);
      }
      text_ = text->as_string();
      document.text = text_;
    } else {
      if (!open_next()) return false;
      if (sources_[source_ - 1].json_lines) continue;
      document.origin = file_->path().string();
      document.text = std::exchange(rest_, {});
    }
    if (!is_blank(document.text)) return true;
    ++blank_;
  }
}

std::string_view name_of(SplitRule::Kind kind) {
  return kind == SplitRule::Kind::none ? "none" : kind == SplitRule::Kind::documents ? "documents" : "tails";
}

bool SplitRule::to_validation(int64_t document) const {
  if (kind != Kind::documents) return false;
  const auto begin = [&](int64_t stretch) {
    return static_cast<int64_t>(std::ceil(static_cast<double>(stretch) / fraction));
  };
  int64_t stretch = static_cast<int64_t>(static_cast<double>(document) * fraction);
  while (begin(stretch) > document) --stretch;  // the product may have been rounded
  while (begin(stretch + 1) <= document) ++stretch;
  const int64_t length = begin(stretch + 1) - begin(stretch);
  const uint64_t drawn = Rng(seed).below(static_cast<uint64_t>(stretch), static_cast<uint64_t>(length));
  return document == begin(stretch) + static_cast<int64_t>(drawn);
}

SplitRule choose_split(const std::vector<Source>& sources, const std::string& text_key, double fraction,
                       uint64_t seed) {
  if (!(fraction >= 0 && fraction <= 0.5)) {
    fail_input("the validation fraction must be from 0 to 0.5, found {}", fraction);
  }
  SplitRule rule{fraction == 0 ? SplitRule::Kind::none : SplitRule::Kind::tails, fraction, seed};
  if (fraction == 0) return rule;
  DocumentReader reader(sources, text_key);
  Document document;
  const double needed = std::ceil(1 / fraction);
  for (double found = 0; found < needed; ++found) {
    if (!reader.next(document)) return rule;
  }
  rule.kind = SplitRule::Kind::documents;
  return rule;
}

PartReader::PartReader(std::vector<Source> sources, const std::string& text_key, SplitRule rule)
    : reader_(std::move(sources), text_key), rule_(rule) {}

namespace {

/// Where the last `fraction` of the text begins: after a newline, else before a space, else between
/// characters. The text's size when either side would be blank.
size_t tail_start(std::string_view text, double fraction) {
  const size_t target = static_cast<size_t>(static_cast<double>(text.size()) * (1 - fraction));
  size_t cut = text.rfind('\n', target);
  cut = cut == std::string_view::npos ? 0 : cut + 1;
  if (is_blank(text.substr(0, cut))) {
    cut = std::min(text.rfind(' ', target), text.size());
    if (cut == text.size() || is_blank(text.substr(0, cut))) cut = target;
    while (cut > 0 && cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  }
  return is_blank(text.substr(0, cut)) || is_blank(text.substr(cut)) ? text.size() : cut;
}

}  // namespace

bool PartReader::next(Part& part) {
  if (!tail_.text.empty()) {
    part = std::exchange(tail_, {});
    return true;
  }
  Document document;
  if (!reader_.next(document)) return false;
  const bool whole = rule_.kind != SplitRule::Kind::tails;
  const size_t cut = whole ? document.text.size() : tail_start(document.text, rule_.fraction);
  part = {document.text.substr(0, cut), document.origin,
          rule_.to_validation(document_++) ? DataSplit::val : DataSplit::train};
  tail_ = {document.text.substr(cut), document.origin, DataSplit::val};
  return true;
}

}  // namespace tang
