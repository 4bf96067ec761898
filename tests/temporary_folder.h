// A folder of its own for a test, removed at the end.
#pragma once

#include <stdlib.h>

#include <string>

#include "lib/base/error.h"
#include "lib/base/file.h"

namespace tang {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "tang-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail_machine("cannot make {}", name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const fs::path& path() const { return path_; }
  operator const fs::path&() const { return path_; }
  fs::path operator/(const fs::path& name) const { return path_ / name; }

 private:
  fs::path path_;
};

}  // namespace tang
