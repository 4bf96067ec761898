#include "lib/data/prepare.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "lib/base/error.h"
#include "lib/data/dataset.h"
#include "lib/data/documents.h"
#include "lib/data/inspect.h"
#include "tests/temporary_folder.h"

using namespace tang;

namespace {

std::vector<uint32_t> ids_of(const fs::path& folder, DataSplit split) {
  std::vector<uint32_t> ids;
  for (const fs::path& path : find_shards({folder.string()}, split, "test")) {
    const TokenShard shard(path);
    const size_t at = ids.size();
    ids.resize(at + static_cast<size_t>(shard.size()));
    shard.read(0, shard.size(), ids.data() + at);
  }
  return ids;
}

/// The texts between document marks. The first id must be a mark.
std::vector<std::string> documents_of(const fs::path& folder, DataSplit split) {
  const auto tokenizer = load_tokenizer(folder);
  const std::vector<uint32_t> ids = ids_of(folder, split);
  std::vector<std::string> documents;
  CHECK(ids.front() == tokenizer->document_mark());
  for (auto at = ids.begin(); at != ids.end();) {
    const auto end = std::find(at + 1, ids.end(), tokenizer->document_mark());
    documents.push_back(tokenizer->decode(std::vector<uint32_t>(at + 1, end)));
    at = end;
  }
  return documents;
}

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_file(entry.path());
  }
  return files;
}

PrepareOptions options(const fs::path& input, const fs::path& out) {
  PrepareOptions result;
  result.inputs = {input.string()};
  result.out = out.string();
  result.tokenizer = "byte";
  result.val_fraction = 0;
  return result;
}

std::string refusal(const PrepareOptions& options) {
  try {
    prepare(options);
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE(
    "data: every file is a document behind its mark, in byte order of names; blank ones are counted (D03)") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "in" / "sub");
  write_file_atomic(folder / "in" / "b.txt", "\xEF\xBB\xBFsecond\r\n\xFF");
  write_file_atomic(folder / "in" / "a.txt", "first\n");
  write_file_atomic(folder / "in" / "sub" / "c", "third");
  write_file_atomic(folder / "in" / "empty.txt", "");
  write_file_atomic(folder / "in" / "blank.txt", "\n \n\t\n");
  write_file_atomic(folder / "in" / ".hidden", "never");
  const Json dataset = prepare(options(folder / "in", folder / "out"));
  CHECK(documents_of(folder / "out", DataSplit::train) ==
        std::vector<std::string>{"first\n", "\xEF\xBB\xBFsecond\r\n\xFF", "third"});
  CHECK(dataset.at("blank_documents").as_int() == 2);
  CHECK(dataset.at("train").at("documents").as_int() == 3);
  CHECK(dataset.at("train").at("tokens").as_int() == 3 + 6 + 12 + 5);
  CHECK(dataset.at("train").at("bytes").as_int() == 6 + 12 + 5);
  CHECK(dataset.dump() == Json::parse(read_file(folder / "out" / "dataset.json"), "d").dump());
}

TEST_CASE("data: every line of JSON lines is a document") {
  const TemporaryFolder folder;
  write_file_atomic(
      folder / "a.jsonl",
      "{\"text\": \"one\\nline\", \"id\": 1}\n\n{\"text\": \"  \"}\r\n{\"id\": 2, \"text\": \"caf\\u00e9\"}");
  const Json dataset = prepare(options(folder / "a.jsonl", folder / "out"));
  CHECK(documents_of(folder / "out", DataSplit::train) ==
        std::vector<std::string>{"one\nline", "caf\xC3\xA9"});
  CHECK(dataset.at("blank_documents").as_int() == 1);
  PrepareOptions key = options(folder / "a.jsonl", folder / "out");
  key.text_key = "body";
  CHECK(has(refusal(key), "a.jsonl line 1: expected an object with a string under 'body'"));
  write_file_atomic(folder / "a.jsonl", "{\"text\": \"x\"}\n{\"text\": 3}\n");
  CHECK(has(refusal(options(folder / "a.jsonl", folder / "out")), "a.jsonl line 2: expected an object"));
  write_file_atomic(folder / "a.jsonl", "{\"text\": \"x\"}\n{\"text\": \"x\"\n");
  CHECK(has(refusal(options(folder / "a.jsonl", folder / "out")), "a.jsonl line 2: not valid JSON"));
}

TEST_CASE("data: a fraction of many documents goes to validation whole, of few their ends do") {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "{\"text\": \"document " + std::to_string(i) + "\"}\n";
  write_file_atomic(folder / "a.jsonl", lines);
  PrepareOptions o = options(folder / "a.jsonl", folder / "out");
  o.val_fraction = 0.05;
  CHECK(prepare(o).at("split").at("rule").as_string() == "documents");
  const auto val = documents_of(folder / "out", DataSplit::val),
             train = documents_of(folder / "out", DataSplit::train);
  CHECK(val.size() == 5);
  CHECK(train.size() == 95);
  for (const std::string& document : val)
    CHECK(std::find(train.begin(), train.end(), document) == train.end());
  o.seed = 1;
  prepare(o);
  CHECK(documents_of(folder / "out", DataSplit::val) != val);

  std::string book;
  for (int i = 0; i < 100; ++i) book += "verse " + std::to_string(i) + "\n";
  write_file_atomic(folder / "book.txt", book);
  o.inputs = {(folder / "book.txt").string()};
  CHECK(prepare(o).at("split").at("rule").as_string() == "tails");
  const auto head = documents_of(folder / "out", DataSplit::train),
             tail = documents_of(folder / "out", DataSplit::val);
  REQUIRE(head.size() == 1);
  REQUIRE(tail.size() == 1);
  CHECK(head[0] + tail[0] == book);
  CHECK(head[0].back() == '\n');
  CHECK(tail[0].size() < book.size() / 10);
  o.val = {(folder / "a.jsonl").string()};
  CHECK(prepare(o).at("split").at("rule").as_string() == "given");
  CHECK(documents_of(folder / "out", DataSplit::train) == std::vector<std::string>{book});
  CHECK(documents_of(folder / "out", DataSplit::val).size() == 100);
}

TEST_CASE("data: each stretch of 1/fraction documents gives exactly one to validation") {
  for (const double fraction : {0.5, 1.0 / 3, 0.1, 0.02, 0.013}) {
    const SplitRule rule{SplitRule::Kind::documents, fraction, 3};
    int64_t chosen = 0;
    for (int64_t i = 0; i < 5000; ++i) chosen += rule.to_validation(i);
    CHECK(std::abs(static_cast<double>(chosen) - 5000 * fraction) <= 1);
  }
  CHECK_FALSE(SplitRule().to_validation(0));
}

TEST_CASE("data: the same inputs write the same bytes, and shards end where they are told to") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 3000; ++i)
    text += "the ship number " + std::to_string(i % 77) + " sailed north again\n";
  write_file_atomic(folder / "a.txt", text);
  PrepareOptions o = options(folder / "a.txt", folder / "one");
  o.tokenizer = have_sentencepiece() ? "bpe" : "byte";
  o.vocab_size = 320;
  o.val_fraction = 0.1;
  o.shard_tokens = 5000;
  prepare(o);
  o.out = (folder / "two").string();
  prepare(o);
  CHECK(contents(folder / "one") == contents(folder / "two"));
  prepare(o);  // over itself
  CHECK(contents(folder / "one") == contents(folder / "two"));
  const auto shards = find_shards({o.out}, DataSplit::train, "test");
  REQUIRE(shards.size() > 2);
  for (size_t i = 0; i + 1 < shards.size(); ++i) CHECK(TokenShard(shards[i]).size() == 5000);
  CHECK(documents_of(o.out, DataSplit::train)[0] + documents_of(o.out, DataSplit::val)[0] == text);
}

TEST_CASE("data: over-long lines lose nothing (T06, T07)" * doctest::skip(!have_sentencepiece())) {
  const TemporaryFolder folder;
  std::string words = "the sea was calm ";
  while (words.size() < 5'000'000) words += words.substr(0, 5'000'000 - words.size());
  PrepareOptions o = options(folder / "a.txt", folder / "out");
  write_file_atomic(folder / "a.txt",
                    "the sea was calm and a ship sailed north again over the long grey water ^^^^^^\n");
  o.tokenizer = "bpe";
  o.vocab_size = 300;
  prepare(o);
  o.tokenizer = (folder / "out" / "tokenizer.model").string();
  for (const std::string& line : {words, std::string(1'000'000, '^')}) {
    write_file_atomic(folder / "a.txt", line);
    const Json dataset = prepare(o);
    CHECK(dataset.at("unknown_tokens").as_int() == 0);
    const std::vector<std::string> documents = documents_of(folder / "out", DataSplit::train);
    REQUIRE(documents.size() == 1);
    CHECK((documents[0] == line));
  }
}

TEST_CASE("data: a new dataset replaces the old one's files and touches nobody else's") {
  const TemporaryFolder folder;
  write_file_atomic(folder / "a.txt", std::string(1000, 'a'));
  PrepareOptions o = options(folder / "a.txt", folder / "out");
  o.shard_tokens = 300;
  prepare(o);
  CHECK(find_shards({o.out}, DataSplit::train, "test").size() == 4);
  o.shard_tokens = 600;
  if (have_sentencepiece()) {
    o.tokenizer = "bpe";
    o.vocab_size = 30000;
    write_file_atomic(folder / "a.txt",
                      "aaaa bbbb abababab\n abba babab aabb bbaa abab baba aaab bbba ab ba abbb\n");
    CHECK(refusal(o) != "accepted");  // too little text for so many ids: the old dataset stays whole
    CHECK(find_shards({o.out}, DataSplit::train, "test").size() == 4);
    CHECK(fs::exists(folder / "out" / "dataset.json"));
    o.tokenizer = "byte";
    write_file_atomic(folder / "a.txt", std::string(1000, 'a'));
  }
  prepare(o);
  CHECK(find_shards({o.out}, DataSplit::train, "test").size() == 2);
  write_file_atomic(folder / "out" / "train_000007.bin", "mine");
  CHECK(has(refusal(o), "train_000007.bin is not from an earlier tang-data run"));
  CHECK(read_file(folder / "out" / "train_000007.bin") == "mine");
}

TEST_CASE("data: inputs that are no text are refused by what they are") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& bytes) {
    write_file_atomic(folder / "in", bytes);
    return refusal(options(folder / "in", folder / "out"));
  };
  CHECK(has(refused("\x1f\x8b\x08 zipped"), "is a gzip file: unpack it first"));
  CHECK(has(refused("PAR1...."), "is a parquet file"));
  CHECK(has(refused("\x88\xd8\x34\x01"), "holds tokens already"));
  CHECK(has(refused(""), "all 1 documents are blank"));
  CHECK(has(refusal(options(folder / "none", folder / "out")), "no text at"));
  PrepareOptions o = options(folder / "in", folder / "out");
  write_file_atomic(folder / "in", "text");
  o.val_fraction = 0.6;
  CHECK(has(refusal(o), "from 0 to 0.5, found 0.6"));
  o.val_fraction = 0;
  o.shard_tokens = 0;
  CHECK(has(refusal(o), "from 1 to 2147483647 tokens"));
  o.shard_tokens = 10;
  o.out = (folder / "in").string();
  CHECK(has(refusal(o), "is not a folder"));
}

TEST_CASE("data: inspect tells a dataset's figures and finds ids that its tokenizer lacks") {
  const TemporaryFolder folder;
  write_file_atomic(folder / "a.txt", "hello");
  prepare(options(folder / "a.txt", folder / "out"));
  const Json found = inspect(folder / "out");
  const Json& shard = found.at("shards").items().at(0);
  CHECK(shard.at("tokens").as_int() == 6);
  CHECK(shard.at("largest_id").as_int() == 256);
  CHECK(shard.at("documents").as_int() == 1);
  CHECK(shard.at("first_text").as_string() == "hello");
  CHECK(has(describe_members(found), "shards[0].tokens"));
  CHECK(inspect(folder / "a.txt").at("documents").as_int() == 1);
  TokenShardWriter writer(folder / "out" / "train_000000.bin", 300);
  writer.append(std::vector<uint32_t>{257});
  writer.commit();
  CHECK_THROWS_WITH_AS(inspect(folder / "out"), doctest::Contains("its largest id is 257"), Error);
  CHECK_THROWS_WITH_AS(inspect(folder.path()), doctest::Contains("holds no token shards"), Error);
}
