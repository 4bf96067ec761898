#include "lib/cuda/jit_cache.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "tests/environment.h"
#include "tests/temporary_folder.h"

namespace tang {
namespace {

struct Warnings {
  std::vector<std::string> list;
  JitCache::Warn collect() {
    return [this](const std::string& message) { list.push_back(message); };
  }
};

void write_plain(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

fs::path only_entry(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  REQUIRE(files.size() == 1);
  return files[0];
}

const Digest key = Digest().add("one").add("two");

}  // namespace

TEST_CASE("jit cache: what is stored is found, by its key alone") {
  const TemporaryFolder folder;
  Warnings warnings;
  const JitCache cache(folder.path() / "made" / "as needed", warnings.collect());
  CHECK_FALSE(cache.find(key));
  cache.store(key, std::string("payload\0with a zero", 19));
  CHECK(cache.find(key) == std::string("payload\0with a zero", 19));
  CHECK_FALSE(cache.find(Digest().add("onet").add("wo")));  // the border between texts counts
  CHECK_FALSE(cache.find(Digest().add("two").add("one")));
  CHECK(warnings.list.empty());
}

TEST_CASE("jit cache: an entry that is cut or changed anywhere is rebuilt with a warning") {
  const TemporaryFolder folder;
  Warnings warnings;
  const JitCache cache(folder.path(), warnings.collect());
  cache.store(key, "some payload");
  const fs::path path = only_entry(folder.path());
  const std::string good = read_file(path);
  size_t expected = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string flipped = good;
    flipped[i] ^= 0x10;
    for (const std::string& bad : {good.substr(0, i), flipped}) {
      write_plain(path, bad);
      CHECK_FALSE(cache.find(key));
      CHECK(warnings.list.size() == ++expected);
    }
  }
  CHECK(warnings.list.back().find("damaged") != std::string::npos);
  cache.store(key, "some payload");
  CHECK(cache.find(key) == "some payload");
}

TEST_CASE("jit cache: one kernel's entry under another's name is refused") {
  const TemporaryFolder folder;
  Warnings warnings;
  const JitCache cache(folder.path(), warnings.collect());
  cache.store(key, "payload");
  const Digest other = Digest().add("other");
  fs::rename(only_entry(folder.path()), folder.path() / (other.hex() + ".kernel"));
  CHECK_FALSE(cache.find(other));
  CHECK(warnings.list.size() == 1);
}

TEST_CASE("jit cache: a folder that cannot be made means one warning and no cache") {
  const TemporaryFolder folder;
  write_plain(folder.path() / "file", "in the way");
  Warnings warnings;
  const JitCache cache(folder.path() / "file" / "cache", warnings.collect());
  CHECK(warnings.list.size() == 1);
  CHECK(warnings.list[0].find("TANG_CACHE_DIR") != std::string::npos);
  cache.store(key, "payload");
  CHECK_FALSE(cache.find(key));
  CHECK(warnings.list.size() == 1);
}

TEST_CASE("jit cache: a folder that turns read-only costs the entry, not the run" *
          doctest::skip(::geteuid() == 0)) {
  const TemporaryFolder folder;
  Warnings warnings;
  const JitCache cache(folder.path(), warnings.collect());
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  cache.store(key, "payload");
  fs::permissions(folder.path(), fs::perms::owner_all);
  CHECK(warnings.list.size() == 1);
  CHECK_FALSE(cache.find(key));
}

TEST_CASE("jit cache: a folder or an entry that others can write is not trusted") {
  const TemporaryFolder folder;
  Warnings warnings;
  const JitCache cache(folder.path(), warnings.collect());
  cache.store(key, "payload");
  fs::permissions(only_entry(folder.path()), fs::perms::others_write, fs::perm_options::add);
  CHECK_FALSE(cache.find(key));
  CHECK(warnings.list.size() == 1);
  fs::permissions(folder.path(), fs::perms::all);
  JitCache(folder.path(), warnings.collect());
  CHECK(warnings.list.size() == 2);
}

TEST_CASE("jit cache: the environment says where: TANG_CACHE_DIR, else XDG_CACHE_HOME, else HOME") {
  const TemporaryFolder folder;
  const Environment tang("TANG_CACHE_DIR", (folder.path() / "a").c_str());
  const Environment xdg("XDG_CACHE_HOME", (folder.path() / "b").c_str());
  const Environment home("HOME", (folder.path() / "c").c_str());
  JitCache::from_environment().store(key, "payload");
  CHECK_NOTHROW(only_entry(folder.path() / "a"));
  const Environment no_tang("TANG_CACHE_DIR", nullptr);
  JitCache::from_environment().store(key, "payload");
  CHECK_NOTHROW(only_entry(folder.path() / "b" / "tang"));
  const Environment no_xdg("XDG_CACHE_HOME", nullptr);
  JitCache::from_environment().store(key, "payload");
  CHECK_NOTHROW(only_entry(folder.path() / "c" / ".cache" / "tang"));
  const Environment off("TANG_CACHE_DIR", "off");
  CHECK_FALSE(JitCache::from_environment().find(key));
}

TEST_CASE("jit cache: without a folder nothing is kept") {
  const JitCache cache(std::nullopt);
  cache.store(key, "payload");
  CHECK_FALSE(cache.find(key));
}

}  // namespace tang
