// The rooms' arrows, the size of files and the homes of heavy headers, held against the tree itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "lib/base/file.h"
#include "lib/base/text.h"

namespace tang {
namespace {

/// What each room may include directly; the rest follows.
const std::map<std::string, std::set<std::string>>& arrows() {
  static const std::map<std::string, std::set<std::string>> table = {
      {"base", {}},
      {"device", {"base"}},
      {"cuda", {"device"}},
      {"expr", {"device"}},
      {"ops", {"expr", "device"}},
      {"model", {"ops"}},
      {"format", {"base"}},
      {"text", {"base"}},
      {"data", {"format", "text"}},
      {"dist", {"device"}},
      {"train", {"model", "data", "dist", "infer"}},  // infer: samples while training
      {"infer", {"model", "text", "format"}},
      {"check", {"ops", "train"}},
      {"bench", {"ops", "train", "check"}},  // check: nothing is timed before it is proved
  };
  return table;
}

std::set<std::string> reach(const std::string& room) {
  std::set<std::string> rooms = {room};
  for (const std::string& next : arrows().at(room)) rooms.merge(reach(next));
  return rooms;
}

struct Source {
  std::string path;  // below the root: "lib/ops/op.h"
  std::string text;
  std::vector<std::string> includes;  // as written: "lib/base/error.h", <cuda.h>
};

std::vector<Source> sources() {
  std::vector<Source> list;
  const fs::path root = TANG_SOURCE_DIR;
  for (const char* folder : {"lib", "apps", "kernels", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string kind = entry.path().extension().string();
      if (kind != ".h" && kind != ".cpp" && kind != ".cu" && kind != ".cuh") continue;
      Source source{fs::relative(entry.path(), root).string(), read_file(entry.path()), {}};
      for (const std::string& line : split(source.text, '\n')) {
        if (!line.starts_with("#include ")) continue;
        const size_t end = line.find_first_of(">\"", 10);  // a comment may follow
        source.includes.push_back(line.substr(9, end == std::string::npos ? end : end - 8));
      }
      list.push_back(std::move(source));
    }
  }
  return list;
}

std::string room_of(const std::string& path) { return path.starts_with("lib/") ? split(path, '/')[1] : ""; }

}  // namespace

TEST_CASE("layers: every room includes only rooms below it") {
  for (const Source& source : sources()) {
    const std::string room = room_of(source.path);
    if (room.empty()) continue;
    INFO(source.path);
    REQUIRE_MESSAGE(arrows().contains(room), "a room that the table does not know");
    const std::set<std::string> allowed = reach(room);
    for (const std::string& include : source.includes) {
      if (include.starts_with("\"lib/")) CHECK_MESSAGE(allowed.contains(split(include, '/')[1]), include);
      if (include.starts_with("\"kernels/"))
        // The generator's arithmetic is one text for host and kernel.
        CHECK_MESSAGE((((room == "ops" || room == "cuda") && include.ends_with(".h\"")) ||
                       (room == "base" && include == "\"kernels/normal.h\"")),
                      include);
      CHECK_MESSAGE((!include.starts_with("\"apps/") && !include.starts_with("\"tests/")), include);
    }
  }
}

TEST_CASE("layers: kernels include nothing from outside their folder") {
  for (const Source& source : sources()) {
    if (!source.path.starts_with("kernels/")) continue;
    INFO(source.path);
    for (const std::string& include : source.includes) {
      const std::string name = include.substr(1, include.size() - 2);
      CHECK_MESSAGE((include[0] == '<' || fs::exists(fs::path(TANG_SOURCE_DIR) / "kernels" / name) ||
                     fs::exists((fs::path(TANG_SOURCE_DIR) / source.path).parent_path() / name)),
                    include);
      CHECK_MESSAGE(!include.starts_with("\"lib/"), include);
    }
  }
}

TEST_CASE("layers: heavy and vendor headers have one home each") {
  for (const Source& source : sources()) {
    if (source.path.starts_with("kernels/")) continue;
    INFO(source.path);
    for (const std::string& include : source.includes) {
      const bool vendor = include.starts_with("<cuda") || include.starts_with("<nvrtc") ||
                          include.starts_with("<cublas") || include.starts_with("<nccl");
      const bool in_room = source.path.starts_with("lib/cuda/") || source.path.starts_with("tests/cuda/");
      CHECK_MESSAGE((!vendor || in_room), include);
      if (include.starts_with("<CLI/")) CHECK(source.path == "lib/base/cli.cpp");
      if (include.starts_with("<nlohmann/")) CHECK(source.path == "lib/base/json.cpp");
      const bool doctest_home = source.path.starts_with("tests/");
      if (include.starts_with("<doctest/")) CHECK(doctest_home);
    }
  }
  const auto users = [](const std::string& header) {
    const auto all = sources();
    return std::count_if(all.begin(), all.end(), [&](const Source& source) {
      return std::any_of(source.includes.begin(), source.includes.end(),
                         [&](const std::string& include) { return include.starts_with(header); });
    });
  };
  CHECK(users("<yaml-cpp/") <= 1);
}

TEST_CASE("layers: files stay under 400 lines, programs under 150") {
  for (const Source& source : sources()) {
    INFO(source.path);
    const auto lines = std::count(source.text.begin(), source.text.end(), '\n');
    CHECK(lines < (source.path.starts_with("apps/") ? 150 : 400));
  }
}

TEST_CASE("layers: checks and benches know no op by name") {
  for (const Source& source : sources()) {
    const std::string room = room_of(source.path);
    if (room != "check" && room != "bench") continue;
    INFO(source.path);
    static const std::set<std::string> general = {"\"lib/ops/op.h\"",        "\"lib/ops/catalog.h\"",
                                                  "\"lib/ops/reference.h\"", "\"lib/ops/expression.h\"",
                                                  "\"lib/ops/case.h\"",      "\"lib/ops/instance.h\""};
    for (const std::string& include : source.includes)
      CHECK_MESSAGE((!include.starts_with("\"lib/ops/") || general.contains(include)), include);
  }
}

}  // namespace tang
