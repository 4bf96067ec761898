#include "lib/data/loader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "lib/base/error.h"
#include "tests/temporary_folder.h"

using namespace tang;

namespace {

/// A shard of the ids start, start + 1, …
void write_shard(const fs::path& path, uint32_t start, int64_t count, int64_t vocab_size = 50000) {
  std::vector<uint32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), start);
  TokenShardWriter writer(path, vocab_size);
  writer.append(ids);
  writer.commit();
}

LoaderOptions options(const fs::path& path, int64_t seq_len, bool shuffle = true) {
  return {.paths = {path.string()}, .seq_len = seq_len, .vocab_size = 50000, .shuffle = shuffle, .seed = 7};
}

/// First token of each sequence [first, first + count).
std::vector<uint32_t> firsts(TokenLoader& loader, int64_t first, int64_t count) {
  const size_t size = static_cast<size_t>(count * loader.seq_len());
  std::vector<uint32_t> tokens(size), targets(size), result;
  loader.batch(first, count, tokens.data(), targets.data());
  for (size_t i = 0; i < size; ++i) CHECK(targets[i] == tokens[i] + 1);
  for (size_t i = 0; i < size; i += static_cast<size_t>(loader.seq_len())) result.push_back(tokens[i]);
  return result;
}

std::string refusal(LoaderOptions options) {
  try {
    TokenLoader loader(std::move(options));
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("data: a shard holds floor((tokens - 1) / T) sequences (D02, D04)") {
  const TemporaryFolder folder;
  write_shard(folder / "a.bin", 0, 4096);
  CHECK(TokenLoader(options(folder / "a.bin", 1024)).sequences_per_epoch() == 3);
  write_shard(folder / "b.bin", 0, 17);
  CHECK(TokenLoader(options(folder / "b.bin", 16)).sequences_per_epoch() == 1);
  CHECK(TokenLoader(options(folder / "b.bin", 8)).sequences_per_epoch() == 2);
  CHECK(TokenLoader(options(folder.path(), 16)).sequences_per_epoch() == 255 + 1);
  CHECK(TokenLoader(options(folder.path(), 16)).tokens() == 4113);
}

TEST_CASE("data: a shard without one whole sequence is refused with both counts (D01, D02)") {
  const TemporaryFolder folder;
  for (const int64_t tokens : {0, 1, 16}) {
    write_shard(folder / "short.bin", 0, tokens);
    const std::string message = refusal(options(folder / "short.bin", 16));
    CHECK(has(message, "needs 17 tokens"));
    CHECK(has(message, "short.bin has " + std::to_string(tokens)));
  }
  write_shard(folder / "d01.bin", 0, 32768);
  CHECK(has(refusal(options(folder / "d01.bin", 32768)), "needs 32769 tokens"));
}

TEST_CASE("data: without shuffle sequences come in file order, with targets one ahead, over epochs") {
  const TemporaryFolder folder;
  write_shard(folder / "x_000000.bin", 100, 13);
  write_shard(folder / "x_000001.bin", 200, 9);
  TokenLoader loader(options(folder.path(), 4, false));
  CHECK(firsts(loader, 0, 7) == std::vector<uint32_t>{100, 104, 108, 200, 204, 100, 104});
  CHECK(firsts(loader, 4, 2) == std::vector<uint32_t>{204, 100});
}

TEST_CASE("data: each epoch is another permutation of all sequences, the same for the same seed (D10)") {
  const TemporaryFolder folder;
  write_shard(folder / "a.bin", 0, 401);
  write_shard(folder / "b.bin", 1000, 401);
  TokenLoader loader(options(folder.path(), 4)), again(options(folder.path(), 4));
  CHECK(loader.sequences_per_epoch() == 200);
  std::set<std::vector<uint32_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<uint32_t> order = firsts(loader, epoch * 200, 200);
    CHECK(std::set<uint32_t>(order.begin(), order.end()).size() == 200);
    CHECK(firsts(again, epoch * 200, 200) == order);
    orders.insert(order);
  }
  CHECK(orders.size() == 3);
  LoaderOptions other = options(folder.path(), 4);
  other.seed = 8;
  TokenLoader reseeded(other);
  CHECK(orders.count(firsts(reseeded, 0, 200)) == 0);
}

TEST_CASE(
    "data: a sequence depends on its number alone, not on batch size or what was read before (C05, C06, "
    "C08)") {
  const TemporaryFolder folder;
  write_shard(folder / "a.bin", 0, 201);
  TokenLoader unbroken(options(folder / "a.bin", 4));
  const std::vector<uint32_t> all = firsts(unbroken, 0, 160);  // 50 an epoch
  for (const int64_t size : {1, 3, 8, 40}) {
    TokenLoader resumed(options(folder / "a.bin", 4));
    const std::vector<uint32_t> part = firsts(resumed, 41, size);
    CHECK(std::equal(part.begin(), part.end(), all.begin() + 41));
  }
  CHECK(firsts(unbroken, 149, 2) == std::vector<uint32_t>{all[149], all[150]});
  CHECK(firsts(unbroken, 0, 1) == std::vector<uint32_t>{all[0]});
}

TEST_CASE("data: an id past the vocabulary is refused when its batch is read, with shard and offset (D07)") {
  const TemporaryFolder folder;
  write_shard(folder / "s_1.bin", 0, 1025);
  std::vector<uint32_t> ids(1025, 5);
  ids[777] = 50000;
  TokenShardWriter writer(folder / "s_2.bin", 65536);
  writer.append(ids);
  writer.commit();
  TokenLoader loader(options(folder.path(), 256, false));
  std::vector<uint32_t> tokens(256), targets(256);
  loader.batch(6, 1, tokens.data(), targets.data());
  CHECK_THROWS_WITH_AS(
      loader.batch(7, 1, tokens.data(), targets.data()),
      doctest::Contains("s_2.bin: token id 50000 at offset 777 is not below the vocabulary size 50000"),
      Error);
  ids[777] = 5;
  ids[1024] = 65535;  // only ever a target
  TokenShardWriter last(folder / "s_2.bin", 65536);
  last.append(ids);
  last.commit();
  TokenLoader reopened(options(folder.path(), 256, false));
  CHECK_THROWS_WITH_AS(reopened.batch(7, 1, tokens.data(), targets.data()), doctest::Contains("offset 1024"),
                       Error);
}

TEST_CASE("data: folders give the split's shards, globs and lists their files in order") {
  const TemporaryFolder folder;
  for (const char* name : {"b_train_1.bin", "a_train_0.bin", "val_0.bin", ".train_9.bin"})
    write_shard(folder / name, 0, 9);
  write_file_atomic(folder / "train.txt", "no shard");
  const std::string root = folder.path().string();
  using Paths = std::vector<fs::path>;
  CHECK(find_shards({root}, DataSplit::train, "x") ==
        Paths{folder / "a_train_0.bin", folder / "b_train_1.bin"});
  CHECK(find_shards({root}, DataSplit::val, "x") == Paths{folder / "val_0.bin"});
  CHECK(find_shards({root + "/*_1.bin", root + "/val_0.bin"}, DataSplit::train, "x") ==
        Paths{folder / "b_train_1.bin", folder / "val_0.bin"});
  CHECK_THROWS_WITH_AS(find_shards({root + "/none*.bin"}, DataSplit::train, "data.train"),
                       doctest::Contains("data.train: no file at"), Error);
  CHECK_THROWS_WITH_AS(find_shards({}, DataSplit::val, "data.val"), doctest::Contains("data.val names no"),
                       Error);
  fs::remove(folder / "val_0.bin");
  CHECK_THROWS_WITH_AS(find_shards({root}, DataSplit::val, "data.val"),
                       doctest::Contains("holds no *val*.bin"), Error);
  CHECK(has(refusal(options(folder / "train.txt", 4)), "is not a token shard"));
}

TEST_CASE("data: the fingerprint follows names, sizes and content, not the folder") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "moved");
  write_shard(folder / "a.bin", 0, 5000);
  write_shard(folder / "moved" / "a.bin", 0, 5000);
  const std::string print = TokenLoader(options(folder / "a.bin", 4)).fingerprint();
  CHECK(print.size() == 16);
  CHECK(TokenLoader(options(folder / "moved" / "a.bin", 4)).fingerprint() == print);
  write_shard(folder / "a.bin", 1, 5000);
  CHECK(TokenLoader(options(folder / "a.bin", 4)).fingerprint() != print);
  write_shard(folder / "a.bin", 0, 5001);
  CHECK(TokenLoader(options(folder / "a.bin", 4)).fingerprint() != print);
  fs::rename(folder / "moved" / "a.bin", folder / "b.bin");
  CHECK(TokenLoader(options(folder / "b.bin", 4)).fingerprint() != print);
}

TEST_CASE("data: options that make no sense are refused") {
  const TemporaryFolder folder;
  write_shard(folder / "a.bin", 0, 9);
  CHECK(has(refusal(options(folder / "a.bin", 0)), "data.seq_len must be at least 1"));
  LoaderOptions none = options(folder / "a.bin", 4);
  none.vocab_size = 0;
  CHECK(has(refusal(none), "model.vocab_size"));
}
