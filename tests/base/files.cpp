// Files, text helpers and run_main.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <thread>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/run_main.h"
#include "lib/base/text.h"
#include "tests/temporary_folder.h"

using namespace tang;

namespace {

size_t entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("base: an atomic write replaces the file whole and leaves nothing beside it") {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.bin";
  write_file_atomic(path, "old");
  const std::string bytes("new\0bytes", 9);
  write_file_atomic(path, bytes);
  CHECK(read_file(path) == bytes);
  CHECK(entries(folder) == 1);
}

TEST_CASE("base: a file that is not committed never appears") {
  const TemporaryFolder folder;
  write_file_atomic(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.append("half of the");
    CHECK(read_file(folder / "a") == "old");
    AtomicFile moved = std::move(file);
    moved.append(" new");
    CHECK(moved.size() == 15);
  }
  CHECK(read_file(folder / "a") == "old");
  CHECK(entries(folder) == 1);
  AtomicFile file(folder / "a");
  file.append("??cd");
  file.overwrite(0, "ab");
  CHECK_THROWS_AS(file.overwrite(3, "xy"), Error);
  file.commit();
  CHECK(read_file(folder / "a") == "abcd");
}

TEST_CASE("base: two writers of one name do not see each other, and the last to commit stays, whole") {
  const TemporaryFolder folder;
  const fs::path path = folder / "shared";
  AtomicFile one(path), two(path);
  one.append("first");
  two.append("the second");
  one.commit();
  CHECK(read_file(path) == "first");
  two.commit();
  CHECK(read_file(path) == "the second");
  CHECK(entries(folder) == 1);
  std::vector<std::thread> writers;
  for (int i = 0; i < 8; ++i) {
    writers.emplace_back([&path, i] {
      for (int round = 0; round < 20; ++round)
        write_file_atomic(path, std::string(static_cast<size_t>(1000 + i), static_cast<char>('a' + i)));
    });
  }
  for (std::thread& writer : writers) writer.join();
  const std::string text = read_file(path);
  REQUIRE(text.size() >= 1000);
  CHECK(text == std::string(1000 + static_cast<size_t>(text[0] - 'a'), text[0]));
}

TEST_CASE("base: a name that a folder has is a machine error, and nothing stays beside it") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "taken");
  try {
    write_file_atomic(folder / "taken", "bytes");
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::machine);
    CHECK(std::string(error.what()).find("taken") != std::string::npos);
  }
  CHECK(entries(folder) == 1);
}

TEST_CASE("base: a write that the system cuts short is a machine error and leaves the old file") {
  const TemporaryFolder folder;
  write_file_atomic(folder / "a", "old");
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  int code = 0;
  std::string message;
  try {
    write_file_atomic(folder / "a", std::string(5000, 'x'));
  } catch (const Error& error) {
    code = error.exit_code();
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(code == 3);
  CHECK(message.find("cannot write") != std::string::npos);
  CHECK(read_file(folder / "a") == "old");
  CHECK(entries(folder) == 1);
}

TEST_CASE("base: file errors name the path and the reason") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(read_file(folder / "none"), doctest::Contains("none: No such file"), Error);
  CHECK_THROWS_WITH_AS(read_file(folder.path()), doctest::Contains("not a regular file"), Error);
  CHECK_THROWS_WITH_AS(write_file_atomic(folder / "no" / "x", ""), doctest::Contains("No such file"), Error);
  CHECK_THROWS_AS(MappedFile(folder / "none"), Error);
}

TEST_CASE("base: a mapped file shows its bytes, an empty one none") {
  const TemporaryFolder folder;
  write_file_atomic(folder / "a", "xyz");
  write_file_atomic(folder / "b", "");
  MappedFile file(folder / "a");
  const MappedFile moved = std::move(file);
  CHECK(moved.bytes().size() == 3);
  CHECK(moved.bytes()[2] == std::byte{'z'});
  CHECK(MappedFile(folder / "b").bytes().empty());
  CHECK(glob((folder / "*").string()) == std::vector<fs::path>{folder / "a", folder / "b"});
  CHECK(glob((folder / "*.none").string()).empty());
}

TEST_CASE("base: the valid prefix of UTF-8 ends before the first ill-formed sequence") {
  CHECK(valid_utf8_prefix("") == 0);
  CHECK(valid_utf8_prefix("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z") == 11);
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "\xC3", "\xF0\x9F\x98"}) {
    CHECK(valid_utf8_prefix(std::string("ok") + bad) == 2);
  }
  CHECK(valid_utf8_prefix("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF") == 10);  // the edges of the ranges
}

TEST_CASE("base: text helpers") {
  CHECK(split("a,,b", ',') == std::vector<std::string>{"a", "", "b"});
  CHECK(words("  a  b ") == std::vector<std::string>{"a", "b"});
  CHECK(trim(" \t x y\n") == "x y");
  const std::vector<std::string> keys = {"n_heads", "n_kv_heads", "dim"};
  CHECK(nearest("n_head", keys) == "n_heads");
  CHECK(nearest("zzzzzz", keys).empty());
  CHECK(suggestion("dmi", keys) == " (did you mean 'dim'?)");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_count(4560000) == "4.56M");
  CHECK(human_seconds(3725) == "1h 02m");
}

TEST_CASE("base: run_main turns exceptions into exit codes") {
  // The lines on stderr are part of the behaviour, but not of this test's output.
  std::fflush(stderr);
  const int kept = ::dup(2);
  const TemporaryFolder folder;
  REQUIRE(std::freopen((folder / "stderr").c_str(), "w", stderr) != nullptr);
  const int done = run_main([] { return 0; });
  const int input = run_main([]() -> int { fail_input("wrong\nkey"); });
  const int check = run_main([]() -> int { fail_check("differs"); });
  const int machine = run_main([]() -> int { throw std::bad_alloc(); });
  const int file = run_main([]() -> int { return static_cast<int>(fs::file_size("/no/such/file")); });
  const int other = run_main([]() -> int { throw std::runtime_error("other"); });
  std::fflush(stderr);
  ::dup2(kept, 2);
  ::close(kept);
  CHECK(done == 0);
  CHECK(input == 2);
  CHECK(check == 1);
  CHECK(machine == 3);
  CHECK(file == 2);
  CHECK(other == 1);
  const std::vector<std::string> lines = split(read_file(folder / "stderr"), '\n');
  REQUIRE(lines.size() == 6);
  CHECK(lines[0].find(": error: wrong key") != std::string::npos);
}
