#include "lib/infer/text_stream.h"

#include <algorithm>

namespace tang {

size_t incomplete_utf8(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;  // inside a character
    const size_t length = byte >= 0xF0 && byte < 0xF8   ? 4
                          : byte >= 0xE0 && byte < 0xF0 ? 3
                          : byte >= 0xC2 && byte < 0xE0 ? 2
                                                        : 1;
    return length > back ? back : 0;
  }
  return 0;
}

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<uint32_t> before)
    : tokenizer_(tokenizer), ids_(std::move(before)), shown_(ids_.size()) {}

std::string TextStream::fresh() const {
  const std::string known = tokenizer_.decode({ids_.data(), shown_}), all = tokenizer_.decode(ids_);
  return all.substr(std::min(known.size(), all.size()));
}

std::string TextStream::push(uint32_t id) {
  ids_.push_back(id);
  std::string text = fresh();
  if (text.empty() || incomplete_utf8(text) > 0) return "";
  // What has just been shown is context enough for what comes next.
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(shown_));
  shown_ = ids_.size();
  return text;
}

std::string TextStream::finish() {
  std::string text = fresh();
  ids_.clear();
  shown_ = 0;
  return text;
}

}  // namespace tang
