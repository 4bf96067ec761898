// Compiled kernels and products' algorithms on disk, one checksummed file each. Whatever is wrong with the
// folder or an entry costs one warning and a compilation, never the run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/file.h"

namespace tang {

/// 128 bits over a sequence of texts, each with its length: two FNV-1a states, finished by SplitMix64's
/// mixer.
class Digest {
 public:
  Digest& add(std::string_view text);
  std::string bytes() const;  // 16
  std::string hex() const;    // 32 digits

 private:
  uint64_t low_ = 0xcbf29ce484222325u, high_ = 0x6c62272e07bb0142u;
};

class JitCache {
 public:
  using Warn = std::function<void(const std::string&)>;

  /// No folder: nothing is found and nothing is kept.
  explicit JitCache(std::optional<fs::path> folder, Warn warn = warn_once);

  /// TANG_CACHE_DIR ("off": none), else XDG_CACHE_HOME/tang, else HOME/.cache/tang.
  static JitCache from_environment();

  std::optional<std::string> find(const Digest& key) const;
  void store(const Digest& key, std::string_view payload) const;

  /// Prints the process's first warning on stderr and drops the others.
  static void warn_once(const std::string& message);

 private:
  fs::path path_of(const Digest& key) const { return *folder_ / (key.hex() + ".kernel"); }
  std::optional<fs::path> folder_;
  Warn warn_;
};

}  // namespace tang
