#include "lib/format/sniff.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "lib/base/text.h"

namespace tang {

namespace {

using namespace std::string_view_literals;

struct Magic {
  std::string_view bytes;
  FileKind kind;
};

constexpr Magic magics[] = {
    {"\x88\xd8\x34\x01"sv, FileKind::token_shard},
    {"\xa1\xd9\x34\x01"sv, FileKind::token_shard},
    {"\x8a\xd8\x34\x01"sv, FileKind::llmc_evaluation},
    {"\xc8\xd7\x34\x01"sv, FileKind::llmc_tokenizer},
    {"BIN.TOK\n"sv, FileKind::llmq_tokens},
    {"MMIDIDX\0\0"sv, FileKind::megatron_index},
    {"LITPKDS"sv, FileKind::packed_tokens},
    {"PAR1"sv, FileKind::parquet},
    {"\x1f\x8b"sv, FileKind::gzip},
    {"\x28\xb5\x2f\xfd"sv, FileKind::zstd},
    {"\x93NUMPY"sv, FileKind::numpy},
};

/// A header length that fits and a brace where the header starts.
bool looks_like_safetensors(std::string_view text) {
  if (text.size() < 10) return false;
  uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  return length >= 2 && length <= 100'000'000 && length + 8 <= text.size() && text[8] == '{';
}

bool looks_like_text(std::string_view text) {
  text = text.substr(0, 4096);
  if (text.find('\0') != std::string_view::npos) return false;
  const size_t odd = static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f';
  }));
  return odd * 50 < text.size() && valid_utf8_prefix(text) + 4 > text.size() * 9 / 10;
}

}  // namespace

FileKind sniff(const fs::path& path, std::span<const std::byte> bytes) {
  if (bytes.empty()) return FileKind::empty;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Magic& magic : magics) {
    if (text.substr(0, magic.bytes.size()) == magic.bytes) return magic.kind;
  }
  const std::string extension = path.extension().string();
  if (looks_like_safetensors(text)) return FileKind::safetensors;
  if (extension == ".model" && text.substr(0, 1) == "\x0a")
    return FileKind::sentencepiece;  // protobuf field 1
  if (extension == ".bin" || extension == ".ds") return FileKind::headerless_tokens;
  if (extension == ".jsonl") return FileKind::json_lines;
  if (extension == ".json") return FileKind::json;
  return looks_like_text(text) ? FileKind::text : FileKind::unknown;
}

std::string_view describe(FileKind kind) {
  switch (kind) {
    case FileKind::empty:
      return "an empty file";
    case FileKind::token_shard:
      return "an llm.c token shard";
    case FileKind::llmc_evaluation:
      return "an llm.c multiple-choice file";
    case FileKind::llmc_tokenizer:
      return "an llm.c tokenizer file";
    case FileKind::llmq_tokens:
      return "an llmq token file";
    case FileKind::megatron_index:
      return "a Megatron index";
    case FileKind::packed_tokens:
      return "a packed token file of lit-gpt";
    case FileKind::parquet:
      return "a parquet file";
    case FileKind::gzip:
      return "a gzip file";
    case FileKind::zstd:
      return "a zstd file";
    case FileKind::numpy:
      return "a NumPy array";
    case FileKind::safetensors:
      return "a safetensors file";
    case FileKind::sentencepiece:
      return "a SentencePiece model";
    case FileKind::json:
      return "a JSON file";
    case FileKind::json_lines:
      return "JSON lines";
    case FileKind::headerless_tokens:
      return "a file of ids without a header";
    case FileKind::text:
      return "text";
    case FileKind::unknown:
      break;
  }
  return "a file of unknown kind";
}

}  // namespace tang
