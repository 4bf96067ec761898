#include "lib/format/token_shard.h"

#include <array>
#include <cstring>

#include "lib/base/error.h"
#include "lib/format/sniff.h"

namespace tang {

const ShardKind& shard_kind_for(int64_t vocab_size) {
  return vocab_size <= 65536 ? gpt2_shard : llama3_shard;
}

TokenShard::TokenShard(const fs::path& path) : file_(path) {
  const std::string name = path.string();
  const std::span<const std::byte> bytes = file_.bytes();
  const int64_t found = static_cast<int64_t>(bytes.size());
  int32_t header[3] = {};
  const size_t present = std::min<size_t>(bytes.size(), sizeof header);
  if (present > 0) std::memcpy(header, bytes.data(), present);
  if (header[0] == gpt2_shard.magic) {
    kind_ = gpt2_shard;
  } else if (header[0] == llama3_shard.magic) {
    kind_ = llama3_shard;
  } else {
    fail_input(
        "{} is not a token shard: expected magic {} or {}, found {} ({}); make shards with tang-data prepare",
        name, gpt2_shard.magic, llama3_shard.magic, header[0], describe(sniff(path, bytes)));
  }
  if (found < shard_header_bytes) {
    fail_input("{} is cut short: a shard's header has {} bytes, the file {}", name, shard_header_bytes,
               found);
  }
  if (header[1] != kind_.version) {
    fail_input("{}: expected version {} of token shards with magic {}, found {}", name, kind_.version,
               kind_.magic, header[1]);
  }
  if (header[2] < 0) fail_input("{}: the header's token count is {}", name, header[2]);
  size_ = header[2];
  const int64_t expected = shard_header_bytes + size_ * kind_.id_bytes;
  if (found != expected) {
    fail_input("{}: {} tokens of {} bytes after the header make {} bytes, the file has {}", name, size_,
               kind_.id_bytes, expected, found);
  }
}

void TokenShard::read(int64_t begin, int64_t count, uint32_t* ids) const {
  if (begin < 0 || count < 0 || begin + count > size_) {
    fail_check("{}: tokens [{}, {}) asked of {}", path().string(), begin, begin + count, size_);
  }
  const std::byte* source = file_.bytes().data() + shard_header_bytes + begin * kind_.id_bytes;
  if (kind_.id_bytes == 4) {
    std::memcpy(ids, source, static_cast<size_t>(count) * 4);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    uint16_t id;
    std::memcpy(&id, source + 2 * i, 2);
    ids[i] = id;
  }
}

TokenShardWriter::TokenShardWriter(const fs::path& path, int64_t vocab_size)
    : file_(path), vocab_size_(vocab_size), kind_(shard_kind_for(vocab_size)) {
  file_.append(std::string(shard_header_bytes, '\0'));
}

void TokenShardWriter::append(std::span<const uint32_t> ids) {
  const int64_t count = static_cast<int64_t>(ids.size());
  if (size_ + count > max_shard_tokens) {
    fail_check("{}: a shard holds at most {} tokens", path().string(), max_shard_tokens);
  }
  for (const uint32_t id : ids) {
    if (id >= vocab_size_) fail_check("{}: id {} in a vocabulary of {}", path().string(), id, vocab_size_);
  }
  if (kind_.id_bytes == 4) {
    file_.append(ids.data(), ids.size_bytes());
  } else {
    const std::vector<uint16_t> narrow(ids.begin(), ids.end());
    file_.append(narrow.data(), narrow.size() * 2);
  }
  size_ += count;
}

void TokenShardWriter::close() {
  if (closed_) return;
  const std::array<int32_t, 3> header = {kind_.magic, kind_.version, static_cast<int32_t>(size_)};
  file_.overwrite(0, {reinterpret_cast<const char*>(header.data()), sizeof header});
  file_.close();
  closed_ = true;
}

void TokenShardWriter::commit() {
  close();
  file_.commit();
}

}  // namespace tang
