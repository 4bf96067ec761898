// Token shards as llm.c defines them: 256 little-endian int32 (magic, version, token count, zeros), then the
// ids. uint16 ids under the GPT-2 magic 20240520 version 1, uint32 ids under the Llama-3 magic 20240801
// version 7.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/file.h"

namespace tang {

/// How ids are stored, fixed by the magic.
struct ShardKind {
  int32_t magic;
  int32_t version;
  int64_t id_bytes;
};

inline constexpr ShardKind gpt2_shard{20240520, 1, 2};
inline constexpr ShardKind llama3_shard{20240801, 7, 4};
inline constexpr int64_t shard_header_bytes = 1024;
inline constexpr int64_t max_shard_tokens = INT32_MAX;  // the count is an int32

/// The narrowest kind that can hold ids below `vocab_size`.
const ShardKind& shard_kind_for(int64_t vocab_size);

/// A shard mapped read-only. Opening checks magic, version, count and the exact byte count; what does not fit
/// is an input error naming the file, what was expected and what was found.
class TokenShard {
 public:
  explicit TokenShard(const fs::path& path);

  int64_t size() const { return size_; }  // tokens
  const ShardKind& kind() const { return kind_; }
  const fs::path& path() const { return file_.path(); }
  std::span<const std::byte> bytes() const { return file_.bytes(); }  // header included

  /// Ids [begin, begin + count) as u32.
  void read(int64_t begin, int64_t count, uint32_t* ids) const;

 private:
  MappedFile file_;
  ShardKind kind_{};
  int64_t size_ = 0;
};

/// Writes one shard of the kind that `vocab_size` asks for; it appears under its name at commit().
class TokenShardWriter {
 public:
  TokenShardWriter(const fs::path& path, int64_t vocab_size);

  /// Every id must be below vocab_size, and the shard stay below 2^31 tokens (check errors).
  void append(std::span<const uint32_t> ids);
  int64_t size() const { return size_; }  // tokens so far
  const fs::path& path() const { return file_.path(); }
  /// Writes the header and flushes the file to disk, still under its temporary name.
  void close();
  void commit();

 private:
  AtomicFile file_;
  int64_t vocab_size_;
  ShardKind kind_;
  int64_t size_ = 0;
  bool closed_ = false;
};

}  // namespace tang
