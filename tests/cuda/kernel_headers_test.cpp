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
      const std::string name = (*at)[1], file = path.filename().string();
      CHECK_MESSAGE(!owners.contains(name), name, " is in ", owners[name], " and in ", file);
      owners[name] = file;
    }
  }
  CHECK(owners.size() > 20);
}

}  // namespace tang
