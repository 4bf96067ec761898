#include "lib/text/tokenizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "tests/temporary_folder.h"

using namespace tang;

namespace {

std::string random_bytes(size_t count) {
  const Rng rng(9);
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(rng.below(i, 256));
  return bytes;
}

/// Texts that tokenizers are known to lose or change.
std::vector<std::string> hard_texts() {
  return {"",
          "newline\nand\ttab  double  trailing  \n\n\r\n ",
          "\xEF\xBB\xBFwith a byte-order mark",
          "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xEF\xAC\x81 e\xCC\x81",
          "the space mark \xE2\x96\x81 and \xE2\x96\x85 and \xE2\x81\x87 themselves",
          "<unk><s></s><0x41> <0x0A> <pad>",
          "not UTF-8: \xFF\xFE \xC3 \xE2\x96 \x80 end",
          std::string("NUL \0 inside\0", 13),
          "    deep\n        deeper\n",
          random_bytes(3000)};
}

std::string training_text() {
  std::string text;
  const Rng rng(4);
  for (uint64_t i = 0; i < 6000; ++i) {
    static constexpr const char* words[] = {"the", "sea",  "was",    "calm",  "and",
                                            "a",   "ship", "sailed", "north", "again"};
    text += words[rng.below(i, 10)];
    text += i % 11 == 10 ? ".\n" : i % 37 == 5 ? "\t" : " ";
  }
  return text;
}

std::unique_ptr<Tokenizer> trained(int64_t vocab_size) {
  const std::string text = training_text();
  bool given = false;
  return train_bpe(
      [&](std::string_view& piece) {
        piece = text;
        return !std::exchange(given, true);
      },
      vocab_size);
}

}  // namespace

TEST_CASE("text: byte tokenizer gives every text back and knows one mark") {
  const auto tokenizer = byte_tokenizer();
  CHECK(tokenizer->vocab_size() == 257);
  CHECK(tokenizer->encode("\xFF"
                          "a") == std::vector<uint32_t>{255, 97});
  for (const std::string& text : hard_texts()) CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
  CHECK(tokenizer->decode(std::vector<uint32_t>{256, 104, 105}) == "hi");
  CHECK_THROWS_WITH_AS(tokenizer->decode(std::vector<uint32_t>{257}), doctest::Contains("id 257"), Error);
}

TEST_CASE("text: tokenizers are found again where they were saved") {
  const TemporaryFolder folder;
  CHECK_FALSE(has_tokenizer(folder));
  CHECK_THROWS_WITH_AS(load_tokenizer(folder), doctest::Contains("holds no tokenizer"), Error);
  CHECK_THROWS_WITH_AS(load_tokenizer(folder / "none"), doctest::Contains("no tokenizer at"), Error);
  byte_tokenizer()->save(folder);
  CHECK(has_tokenizer(folder));
  CHECK(load_tokenizer(folder)->kind() == "byte");
  write_file_atomic(folder / "tokenizer.json", R"({"model": {"type": "BPE"}})");
  CHECK_THROWS_WITH_AS(load_tokenizer(folder), doctest::Contains("this one is \"BPE\""), Error);
}

TEST_CASE("text: cut pieces join to the text and end at newlines, spaces or characters") {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "line " + std::to_string(i) + "\n";
  for (const std::string_view piece : cut_text(text, 20)) {
    CHECK(piece.back() == '\n');
    CHECK(piece.size() <= 40);
  }
  text += std::string(100, 'x') + " " + std::string(30, 'y') + " ";
  for (int i = 0; i < 40; ++i) text += "\xE2\x82\xAC";
  for (const std::string& input : {text, random_bytes(500), std::string("\n"), std::string()}) {
    std::string joined;
    for (const std::string_view piece : cut_text(input, 20)) {
      CHECK_FALSE(piece.empty());
      CHECK(piece.size() <= 40);
      joined += piece;
    }
    CHECK(joined == input);
  }
  CHECK(cut_text(std::string(90, 'y') + "\xE2\x82\xAC", 30).back() == std::string(30, 'y') + "\xE2\x82\xAC");
}

TEST_CASE("text: a trained BPE gives every text back, ill-formed bytes included (T01, T08)" *
          doctest::skip(!have_sentencepiece())) {
  const auto tokenizer = trained(320);
  CHECK(tokenizer->vocab_size() == 320);
  CHECK(tokenizer->lossless());
  for (const std::string& text : hard_texts()) {
    const std::vector<uint32_t> ids = tokenizer->encode(text);
    CHECK(tokenizer->decode(ids) == text);
    CHECK(std::count(ids.begin(), ids.end(), static_cast<uint32_t>(tokenizer->unknown_id())) == 0);
    CHECK(std::count(ids.begin(), ids.end(), tokenizer->document_mark()) == 0);
  }
  const std::string text = training_text();
  CHECK(tokenizer->encode(text).size() < text.size() / 2);
}

TEST_CASE("text: encoding cut pieces is encoding the whole" * doctest::skip(!have_sentencepiece())) {
  const auto tokenizer = trained(320);
  const std::string text = training_text();
  std::vector<uint32_t> ids;
  for (const std::string_view piece : cut_text(text, 64)) tokenizer->encode(piece, ids);
  CHECK(ids == tokenizer->encode(text));
}

TEST_CASE("text: training a BPE twice gives the same model, and saving keeps it" *
          doctest::skip(!have_sentencepiece())) {
  const TemporaryFolder folder;
  const auto tokenizer = trained(310);
  tokenizer->save(folder);
  const std::string model = read_file(folder / "tokenizer.model");
  trained(310)->save(folder);
  CHECK(read_file(folder / "tokenizer.model") == model);
  const auto loaded = load_tokenizer(folder);
  CHECK(loaded->vocab_size() == 310);
  CHECK(loaded->encode("the sea again") == tokenizer->encode("the sea again"));
}

TEST_CASE("text: a BPE that cannot be trained or loaded is one input error" *
          doctest::skip(!have_sentencepiece())) {
  CHECK_THROWS_WITH_AS(trained(299), doctest::Contains("at least 300"), Error);
  CHECK_THROWS_WITH_AS(
      trained(50000), doctest::Contains("vocabulary of 50000 on this text: Vocabulary size too high"), Error);
  CHECK_THROWS_WITH_AS(train_bpe([](std::string_view&) { return false; }, 400), doctest::Contains("no text"),
                       Error);
  const TemporaryFolder folder;
  write_file_atomic(folder / "x.model", "\x0a not a model");
  CHECK_THROWS_WITH_AS(load_tokenizer(folder / "x.model"), doctest::Contains("is no SentencePiece model"),
                       Error);
}
