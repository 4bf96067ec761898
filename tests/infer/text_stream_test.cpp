#include "lib/infer/text_stream.h"

#include <doctest/doctest.h>

namespace tang {

TEST_CASE("text stream: a character appears when it is whole") {
  const auto tokenizer = byte_tokenizer();
  const std::string text = "a\xC3\xA9 \xE2\x82\xAC\xF0\x9F\x98\x80!";  // 1, 2, 1, 3, 4 and 1 bytes
  TextStream stream(*tokenizer, {tokenizer->document_mark(), 'x'});
  std::vector<std::string> pieces;
  for (const uint32_t id : tokenizer->encode(text)) {
    const std::string piece = stream.push(id);
    if (!piece.empty()) pieces.push_back(piece);
  }
  CHECK(pieces == std::vector<std::string>{"a", "\xC3\xA9", " ", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "!"});
  CHECK(stream.finish().empty());
}

TEST_CASE("text stream: bytes that are no character pass, and the end holds nothing back") {
  const auto tokenizer = byte_tokenizer();
  TextStream stream(*tokenizer, {tokenizer->document_mark()});
  CHECK(stream.push(0x80) == "\x80");
  CHECK(stream.push(0xE2).empty());
  CHECK(stream.push('a') ==
        "\xE2"
        "a");
  CHECK(stream.push(0xF0).empty());
  CHECK(stream.push(0x9F).empty());
  CHECK(stream.push(tokenizer->document_mark()).empty());
  CHECK(stream.finish() == "\xF0\x9F");
  CHECK(incomplete_utf8("\xC0") == 0);  // begins nothing
  CHECK(incomplete_utf8("\xE2\x82") == 2);
  CHECK(incomplete_utf8("") == 0);
}

}  // namespace tang
