// NVIDIA's large libraries (NVRTC, cuBLASLt) are opened at run time, so that one binary starts everywhere and
// any installation of theirs will do: a toolkit, the system's packages, or pip's.
#pragma once

#include <string>
#include <vector>

namespace tang {

class ToolkitLibrary {
 public:
  /// Opens the first of `names` (best first, "libnvrtc.so.13") found in library_folders() or by the loader. A
  /// machine error names `title` and every folder searched.
  ToolkitLibrary(const std::string& title, const std::vector<std::string>& names,
                 const std::vector<std::string>& folders);

  /// A function of the library; a machine error when this version lacks it.
  template <class Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(symbol(name));
  }

  const std::string& path() const { return path_; }

  /// Opens a library beside this one that this one will ask the loader for by bare name: then it is found.
  /// Silent where there is none, because the loader may know better.
  void open_companion(const std::string& name) const;

 private:
  void* symbol(const char* name) const;
  std::string title_, path_;
  void* handle_ = nullptr;  // never closed: its functions may be in use until the process ends
};

/// Where the libraries may be, best first: CUDA_HOME, CUDA_PATH, "" (the loader's own search),
/// /usr/local/cuda*, the distribution's folder, pip's nvidia folders.
std::vector<std::string> library_folders();

}  // namespace tang
