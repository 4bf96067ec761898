#include "lib/format/run_folder.h"

#include <algorithm>
#include <string>

namespace tang {

std::vector<CheckpointFolder> list_checkpoints(const fs::path& run) {
  std::vector<CheckpointFolder> found;
  const fs::path folder = run / "checkpoints";
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::string digits = name.starts_with("step-") ? name.substr(5) : "";
    const bool is_number =
        !digits.empty() && digits.size() <= 18 && digits.find_first_not_of("0123456789") == std::string::npos;
    if (is_number && entry.is_directory()) found.push_back({std::stoll(digits), entry.path()});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  return found;
}

}  // namespace tang
