#include "lib/text/sentencepiece.h"

#ifdef TANG_HAVE_SENTENCEPIECE
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <array>
#include <unordered_map>

#include "lib/base/error.h"
#include "lib/base/text.h"

namespace tang {

namespace {

constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581: SentencePiece's own stand-in for a space

/// Splits text into what SentencePiece can take (valid UTF-8 without the space mark, which it would decode as
/// a space) and the bytes it cannot, in order.
template <class Run, class Byte>
void split_runs(std::string_view text, const Run& run, const Byte& byte) {
  while (!text.empty()) {
    const size_t valid = valid_utf8_prefix(text);
    std::string_view good = text.substr(0, valid);
    for (size_t mark; (mark = good.find(space_mark)) != std::string_view::npos;
         good.remove_prefix(mark + space_mark.size())) {
      if (mark > 0) run(good.substr(0, mark));
      for (const char c : space_mark) byte(static_cast<unsigned char>(c));
    }
    if (!good.empty()) run(good);
    text.remove_prefix(valid);
    if (text.empty()) break;
    byte(static_cast<unsigned char>(text[0]));
    text.remove_prefix(1);
  }
}

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(std::string model, const std::string& name) : model_(std::move(model)) {
    const auto status = processor_.LoadFromSerializedProto(model_);
    if (!status.ok()) fail_input("{} is no SentencePiece model: {}", name, status.ToString());
    mark_ = processor_.bos_id() >= 0 ? processor_.bos_id() : processor_.eos_id();
    if (mark_ < 0) fail_input("{} has neither a bos nor an eos id to mark documents with", name);
    fill_tables();
    // Tabs, runs of spaces, newlines, a ligature that NFKC would change, a space mark, a byte that is no
    // UTF-8.
    const std::string probe = " a\t b  c\n\n caf\xC3\xA9 \xEF\xAC\x81 \xE2\x96\x81 \xFF \n";
    if (has_bytes_) lossless_ = decode(Tokenizer::encode(probe)) == probe;
  }

  std::string kind() const override { return "sentencepiece"; }
  std::string file_name() const override { return sentencepiece_file; }
  int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  uint32_t document_mark() const override { return static_cast<uint32_t>(mark_); }
  bool lossless() const override { return lossless_; }
  int64_t unknown_id() const override { return processor_.unk_id(); }

  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<uint32_t>& ids) const override {
    std::vector<int> run_ids;
    split_runs(
        text,
        [&](std::string_view run) {
          const auto status = processor_.Encode(run, &run_ids);
          if (!status.ok()) fail_check("SentencePiece: {}", status.ToString());
          ids.insert(ids.end(), run_ids.begin(), run_ids.end());
        },
        [&](unsigned char byte) { ids.push_back(static_cast<uint32_t>(byte_ids_[byte])); });
  }

  std::string decode(std::span<const uint32_t> ids) const override {
    std::string text;
    for (const uint32_t id : ids) {
      if (id >= texts_.size()) fail_input("id {} in a vocabulary of {}", id, texts_.size());
      text += texts_[id];
    }
    return text;
  }

  void save_as(const fs::path& file) const override { write_file_atomic(file, model_); }

 private:
  /// What each id decodes to, and the ids of single bytes (the unknown id where the model has none).
  void fill_tables() {
    byte_ids_.fill(processor_.unk_id());
    int bytes = 0;
    texts_.resize(static_cast<size_t>(processor_.GetPieceSize()));
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      std::string& text = texts_[static_cast<size_t>(id)];
      if (processor_.IsControl(id)) continue;
      text = processor_.IdToPiece(id);
      if (processor_.IsByte(id)) {  // "<0x0A>"
        const auto byte = static_cast<unsigned char>(std::stoi(text.substr(3, 2), nullptr, 16));
        byte_ids_[byte] = id;
        text = std::string(1, static_cast<char>(byte));
        ++bytes;
      } else if (processor_.IsUnknown(id)) {
        text = "\xEF\xBF\xBD";
      } else {
        for (size_t at; (at = text.find(space_mark)) != std::string::npos;)
          text.replace(at, space_mark.size(), " ");
      }
    }
    has_bytes_ = bytes == 256;
  }

  std::string model_;
  sentencepiece::SentencePieceProcessor processor_;
  std::vector<std::string> texts_;
  std::array<int, 256> byte_ids_{};
  int mark_ = -1;
  bool has_bytes_ = false, lossless_ = false;
};

/// Feeds the trainer lines it will not skip: without tabs and U+2585, which it reserves, without NUL and
/// ill-formed bytes, and shorter than its limit. What is cut out is still encoded, through byte pieces.
class TrainingText final : public sentencepiece::SentenceIterator {
 public:
  explicit TrainingText(const NextText& next) : next_(next) { Next(); }

  bool done() const override { return done_; }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }
  void Next() override {
    if (++at_ < lines_.size()) return;
    at_ = 0;
    lines_.clear();
    std::string_view text;
    while (lines_.empty() && next_(text))
      split_runs(
          text, [&](std::string_view run) { add(run); }, [](auto) {});
    done_ = lines_.empty();
  }

 private:
  static constexpr std::string_view breaks = std::string_view("\n\t\0", 3);
  static constexpr std::string_view reserved = "\xE2\x96\x85";

  void add(std::string_view run) {
    while (!run.empty()) {
      const size_t end = std::min(run.find_first_of(breaks), run.find(reserved));
      for (const std::string_view line : cut_text(run.substr(0, end), max_line / 2))
        lines_.emplace_back(line);
      if (end == std::string_view::npos) return;
      run.remove_prefix(end + (run.substr(end, reserved.size()) == reserved ? reserved.size() : 1));
    }
  }

  static constexpr size_t max_line = 4000;
  const NextText& next_;
  std::vector<std::string> lines_;
  size_t at_ = 0;
  bool done_ = false;
};

}  // namespace

bool have_sentencepiece() { return true; }

std::unique_ptr<Tokenizer> load_sentencepiece(const fs::path& path) {
  return std::make_unique<SentencePiece>(read_file(path), path.string());
}

std::unique_ptr<Tokenizer> train_bpe(const NextText& next, int64_t vocab_size) {
  if (vocab_size < 300)
    fail_input("a BPE vocabulary needs at least 300 entries (256 are bytes), found {}", vocab_size);
  TrainingText text(next);
  if (text.done()) fail_input("no text to train a tokenizer on");
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "bpe"},
      {"vocab_size", fmt::to_string(vocab_size)},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"byte_fallback", "true"},
      {"character_coverage", "1.0"},
      {"max_sentence_length", "8192"},
      {"num_threads", "4"},
      {"minloglevel", "2"},
  };
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &text, &model);
  if (!status.ok()) {  // "Internal: file.cc(660) [condition] Vocabulary size too high (300). …"
    const std::string reason = status.ToString();
    fail_input("SentencePiece could not train a vocabulary of {} on this text: {}", vocab_size,
               reason.substr(reason.find("] ") == std::string::npos ? 0 : reason.find("] ") + 2));
  }
  auto tokenizer = std::make_unique<SentencePiece>(std::move(model), "the trained model");
  if (!tokenizer->lossless()) fail_check("the trained SentencePiece model does not give its text back");
  return tokenizer;
}

}  // namespace tang
#endif
