#include "lib/format/token_shard.h"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "lib/base/error.h"
#include "lib/format/sniff.h"
#include "tests/temporary_folder.h"

using namespace tang;

namespace {

void write_shard(const fs::path& path, const std::vector<uint32_t>& ids, int64_t vocab_size) {
  TokenShardWriter writer(path, vocab_size);
  writer.append(ids);
  writer.commit();
}

std::string with_header(std::array<int32_t, 3> header, size_t data_bytes) {
  std::string bytes(1024 + data_bytes, '\0');
  std::memcpy(bytes.data(), header.data(), sizeof header);
  return bytes;
}

std::string refusal_of(const std::string& bytes) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "s.bin", bytes);
  try {
    const TokenShard shard(folder / "s.bin");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

FileKind kind_of(const std::string& name, std::string_view bytes) {
  return sniff(name, std::as_bytes(std::span(bytes.data(), bytes.size())));
}

}  // namespace

TEST_CASE("format: token shards hold llm.c's header and ids of the width the vocabulary needs") {
  const TemporaryFolder folder;
  write_shard(folder / "a.bin", {1, 65535, 258}, 65536);
  std::string expected = with_header({20240520, 1, 3}, 6);
  std::memcpy(expected.data() + 1024, "\x01\x00\xFF\xFF\x02\x01", 6);
  CHECK(read_file(folder / "a.bin") == expected);
  write_shard(folder / "b.bin", {65536}, 65537);
  expected = with_header({20240801, 7, 1}, 4);
  std::memcpy(expected.data() + 1024, "\x00\x00\x01\x00", 4);
  CHECK(read_file(folder / "b.bin") == expected);
}

TEST_CASE("format: token shards read back any range") {
  const TemporaryFolder folder;
  for (const int64_t vocab : {50257, 128256}) {
    std::vector<uint32_t> ids(1000);
    std::iota(ids.begin(), ids.end(), static_cast<uint32_t>(vocab - 1000));
    write_shard(folder / "s.bin", ids, vocab);
    const TokenShard shard(folder / "s.bin");
    CHECK(shard.size() == 1000);
    std::vector<uint32_t> part(10);
    shard.read(990, 10, part.data());
    CHECK(std::equal(part.begin(), part.end(), ids.end() - 10));
    CHECK_THROWS_AS(shard.read(991, 10, part.data()), Error);
    CHECK_THROWS_AS(shard.read(-1, 1, part.data()), Error);
  }
  write_shard(folder / "empty.bin", {}, 256);
  CHECK(TokenShard(folder / "empty.bin").size() == 0);
}

TEST_CASE("format: shards of another magic, version or length are refused with both values (D11)") {
  CHECK(has(refusal_of(with_header({20230101, 1, 4}, 8)),
            "expected magic 20240520 or 20240801, found 20230101"));
  CHECK(has(refusal_of(with_header({20240520, 2, 4}, 8)),
            "expected version 1 of token shards with magic 20240520, found 2"));
  CHECK(has(refusal_of(with_header({20240801, 1, 4}, 16)), "expected version 7"));
  CHECK(has(refusal_of(with_header({20240520, 1, 4}, 7)), "make 1032 bytes, the file has 1031"));
  CHECK(has(refusal_of(with_header({20240520, 1, 4}, 16)), "make 1032 bytes, the file has 1040"));
  CHECK(has(refusal_of(with_header({20240801, 7, 4}, 8)), "make 1040 bytes, the file has 1032"));
  CHECK(has(refusal_of(with_header({20240520, 1, -1}, 0)), "token count is -1"));
  CHECK(has(refusal_of(with_header({20240520, 1, 0}, 0).substr(0, 500)),
            "header has 1024 bytes, the file 500"));
  CHECK(has(refusal_of(""), "an empty file"));
  CHECK(has(refusal_of("\x1f\x8b"), "a gzip file"));
}

TEST_CASE("format: a shard writer refuses ids outside the vocabulary and leaves no file behind") {
  const TemporaryFolder folder;
  {
    TokenShardWriter writer(folder / "s.bin", 257);
    writer.append(std::vector<uint32_t>{256});
    CHECK_THROWS_WITH_AS(writer.append(std::vector<uint32_t>{257}),
                         doctest::Contains("id 257 in a vocabulary of 257"), Error);
  }
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("format: files are told apart by their first bytes, then by their names") {
  using namespace std::string_view_literals;
  CHECK(kind_of("x.bin", "\x88\xd8\x34\x01") == FileKind::token_shard);
  CHECK(kind_of("x", "\xa1\xd9\x34\x01") == FileKind::token_shard);
  CHECK(kind_of("x", "\x8a\xd8\x34\x01") == FileKind::llmc_evaluation);
  CHECK(kind_of("x", "BIN.TOK\n") == FileKind::llmq_tokens);
  CHECK(kind_of("x.idx", "MMIDIDX\0\0"sv) == FileKind::megatron_index);
  CHECK(kind_of("x.txt", "PAR1") == FileKind::parquet);
  CHECK(kind_of("x.npy", "\x93NUMPY") == FileKind::numpy);
  CHECK(kind_of("x.npy", "\x01\x00\x00\x00"sv) == FileKind::unknown);
  CHECK(kind_of("x.bin", "anything") == FileKind::headerless_tokens);
  CHECK(kind_of("x", "\x08\0\0\0\0\0\0\0{}      "sv) == FileKind::safetensors);
  CHECK(kind_of("x.jsonl", "{}") == FileKind::json_lines);
  CHECK(kind_of("x", "plain words, caf\xC3\xA9\n") == FileKind::text);
  CHECK(kind_of("x",
                "\x7f"
                "ELF\x02\x01\x01\0\0"sv) == FileKind::unknown);
  CHECK(kind_of("x", "") == FileKind::empty);
}
