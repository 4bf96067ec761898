// Host code includes several kernels' headers: a struct that two of them declare would be two types of one
// name.
#include <doctest/doctest.h>

#include <map>
#include <regex>

#include "lib/base/file.h"

namespace tang {

TEST_CASE("kernels: no two headers declare a struct of the same name") {
  const std::regex declaration(R"(\bstruct\s+(?:alignas\(\w+\)\s*)?(\w+)\s*\{)");
  std::map<std::string, std::string> owners;
  for (const fs::path& path : glob(std::string(TANG_SOURCE_DIR) + "/kernels/*.h")) {
    const std::string text = read_file(path);
    for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) {
      const auto [owner, is_new] = owners.emplace((*at)[1], path.filename().string());
      CHECK_MESSAGE(is_new, (*at)[1].str(), " is in ", owner->second, " and in ", path.filename().string());
    }
  }
  CHECK(owners.size() > 20);
}

}  // namespace tang
