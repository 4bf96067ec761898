#include "lib/text/tokenizer.h"

#include <algorithm>

#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/text/sentencepiece.h"

namespace tang {

namespace {

constexpr uint32_t byte_mark = 256;
constexpr const char* byte_file = "tokenizer.json";

class ByteTokenizer final : public Tokenizer {
 public:
  std::string kind() const override { return "byte"; }
  std::string file_name() const override { return byte_file; }
  int64_t vocab_size() const override { return byte_mark + 1; }
  uint32_t document_mark() const override { return byte_mark; }
  bool lossless() const override { return true; }

  void encode(std::string_view text, std::vector<uint32_t>& ids) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    ids.insert(ids.end(), bytes, bytes + text.size());
  }

  std::string decode(std::span<const uint32_t> ids) const override {
    std::string text;
    for (const uint32_t id : ids) {
      if (id > byte_mark) fail_input("id {} in a byte vocabulary of {}", id, vocab_size());
      if (id < byte_mark) text += static_cast<char>(id);
    }
    return text;
  }

  void save_as(const fs::path& file) const override {
    const Json text = Json::object({{"model", Json::object({{"type", "byte"}})},
                                    {"vocab_size", vocab_size()},
                                    {"document_mark", byte_mark}});
    write_file_atomic(file, text.dump(2) + "\n");
  }
};

std::unique_ptr<Tokenizer> load_json(const fs::path& path) {
  const Json root = Json::parse(read_file(path), path.string());
  const Json* model = root.find("model");
  const Json* type = model == nullptr ? nullptr : model->find("type");
  if (type == nullptr || !type->is_string() || type->as_string() != "byte") {
    fail_input(
        "{}: only tokenizer.json files of type 'byte' are read, this one is {}; give a SentencePiece .model",
        path.string(), type == nullptr ? "of another kind" : type->dump());
  }
  return byte_tokenizer();
}

}  // namespace

std::vector<uint32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<uint32_t> ids;
  encode(text, ids);
  return ids;
}

std::unique_ptr<Tokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

bool has_tokenizer(const fs::path& folder) {
  return fs::exists(folder / sentencepiece_file) || fs::exists(folder / byte_file);
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& path) {
  if (!fs::exists(path)) fail_input("no tokenizer at {}", path.string());
  if (fs::is_directory(path)) {
    if (fs::exists(path / sentencepiece_file)) return load_sentencepiece(path / sentencepiece_file);
    if (fs::exists(path / byte_file)) return load_json(path / byte_file);
    fail_input("{} holds no tokenizer: expected {} or {}", path.string(), sentencepiece_file, byte_file);
  }
  return path.extension() == ".json" ? load_json(path) : load_sentencepiece(path);
}

std::vector<std::string_view> cut_text(std::string_view text, size_t target) {
  std::vector<std::string_view> pieces;
  while (text.size() > target) {
    size_t cut = text.find('\n', target - 1);
    cut = cut == std::string_view::npos ? text.size() : cut + 1;
    if (cut > 2 * target) {  // a long line: before a space, or at worst between two characters
      cut = text.rfind(' ', 2 * target);
      if (cut == std::string_view::npos || cut < target) cut = 2 * target;
      for (int back = 0; back < 3 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80; ++back) --cut;
    }
    pieces.push_back(text.substr(0, cut));
    text.remove_prefix(cut);
  }
  if (!text.empty()) pieces.push_back(text);
  return pieces;
}

}  // namespace tang
