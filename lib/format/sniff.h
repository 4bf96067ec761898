// What a file is, told by its first bytes and, where those say nothing, by its name.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lib/base/file.h"

namespace tang {

enum class FileKind {
  empty,
  token_shard,      // llm.c tokens, GPT-2 or Llama-3 magic
  llmc_evaluation,  // llm.c multiple choice
  llmc_tokenizer,
  llmq_tokens,
  megatron_index,
  packed_tokens,  // TinyLlama, old lit-gpt
  parquet,
  gzip,
  zstd,
  numpy,
  safetensors,
  sentencepiece,
  json,
  json_lines,
  headerless_tokens,  // .bin or .ds with no magic: ids of an unknown width
  text,
  unknown,
};

/// `bytes`: the whole file, mapped.
FileKind sniff(const fs::path& path, std::span<const std::byte> bytes);

/// "a gzip file", "llm.c token shard", …
std::string_view describe(FileKind kind);

}  // namespace tang
