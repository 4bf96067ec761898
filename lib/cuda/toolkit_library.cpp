#include "lib/cuda/toolkit_library.h"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>

#include "lib/base/error.h"
#include "lib/base/file.h"

namespace tang {

namespace {

std::string loaded_path(void* handle, const std::string& fallback) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0' ? map->l_name : fallback;
}

void append_environment(std::vector<std::string>& folders, const char* name,
                        std::initializer_list<const char*> below) {
  const char* root = std::getenv(name);
  if (root == nullptr || *root == '\0') return;
  for (const char* folder : below) folders.push_back(fmt::format("{}/{}", root, folder));
}

void append_matches(std::vector<std::string>& folders, const std::string& pattern) {
  std::vector<fs::path> found = glob(pattern);
  std::reverse(found.begin(), found.end());  // the newest version first
  for (const fs::path& folder : found) folders.push_back(folder.string());
}

void append_pip(std::vector<std::string>& folders, const char* root) {
  if (root == nullptr || *root == '\0') return;
  append_matches(folders, fmt::format("{}/lib/python3*/site-packages/nvidia/*/lib", root));
  append_matches(folders, fmt::format("{}/lib/python3*/dist-packages/nvidia/*/lib", root));
}

}  // namespace

std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  append_environment(folders, "CUDA_HOME", {"lib64", "lib"});
  append_environment(folders, "CUDA_PATH", {"lib64", "lib"});
  folders.push_back("");
  folders.push_back("/usr/local/cuda/lib64");
  append_matches(folders, "/usr/local/cuda-*/lib64");
  folders.push_back("/usr/lib/x86_64-linux-gnu");
  append_pip(folders, std::getenv("VIRTUAL_ENV"));
  append_environment(folders, "CONDA_PREFIX", {"lib"});
  append_pip(folders, std::getenv("CONDA_PREFIX"));
  if (const char* home = std::getenv("HOME")) append_pip(folders, fmt::format("{}/.local", home).c_str());
  append_pip(folders, "/usr/local");
  append_pip(folders, "/usr");
  std::vector<std::string> once;
  for (const std::string& folder : folders) {
    if (std::find(once.begin(), once.end(), folder) == once.end()) once.push_back(folder);
  }
  return once;
}

ToolkitLibrary::ToolkitLibrary(const std::string& title, const std::vector<std::string>& names,
                               const std::vector<std::string>& folders)
    : title_(title) {
  for (const std::string& folder : folders) {
    for (const std::string& name : names) {
      const std::string path = folder.empty() ? name : fmt::format("{}/{}", folder, name);
      handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ == nullptr) continue;
      path_ = loaded_path(handle_, path);
      return;
    }
  }
  std::vector<std::string> searched = folders;
  std::replace(searched.begin(), searched.end(), std::string(), std::string("the loader's path"));
  fail_machine("{} ({}) is missing; searched {}: install a CUDA toolkit or set CUDA_HOME", title,
               fmt::join(names, " or "), fmt::join(searched, ", "));
}

void ToolkitLibrary::open_companion(const std::string& name) const {
  dlopen((fs::path(path_).parent_path() / name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

void* ToolkitLibrary::symbol(const char* name) const {
  void* address = dlsym(handle_, name);
  if (address == nullptr) fail_machine("{} has no {}: {} needs a newer one", path_, name, title_);
  return address;
}

}  // namespace tang
