#include "lib/cuda/jit_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/base/error.h"

namespace tang {

namespace {

// An entry: magic, key, payload, digest of all before it. The key inside guards against renamed files.
constexpr std::string_view magic = "TANGJIT1";
constexpr size_t digest_bytes = 16;

uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

/// "" when `path` is this user's alone to write, else what is wrong with it.
std::string ownership_fault(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::strerror(errno);
  if (info.st_uid != ::geteuid()) return fmt::format("it belongs to user {}", info.st_uid);
  if ((info.st_mode & S_IWOTH) != 0) return "everyone may write it";
  return "";
}

/// The payload of a whole, undamaged entry for `key`.
std::optional<std::string> payload_of(const std::string& entry, const Digest& key) {
  const size_t head = magic.size() + digest_bytes;
  if (entry.size() < head + digest_bytes) return std::nullopt;
  const std::string_view body(entry.data(), entry.size() - digest_bytes);
  if (!body.starts_with(magic) || body.substr(magic.size(), digest_bytes) != key.bytes() ||
      Digest().add(body).bytes() != entry.substr(body.size())) {
    return std::nullopt;
  }
  return std::string(body.substr(head));
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

Digest& Digest::add(std::string_view text) {
  const auto feed = [this](unsigned char byte) {
    low_ = (low_ ^ byte) * 0x100000001b3u;
    high_ = (high_ ^ byte) * 0x9e3779b97f4a7c15u;
  };
  for (int shift = 0; shift < 64; shift += 8) feed(static_cast<unsigned char>(text.size() >> shift));
  for (const char byte : text) feed(static_cast<unsigned char>(byte));
  return *this;
}

std::string Digest::bytes() const {
  const uint64_t words[2] = {mixed(low_), mixed(high_ ^ (low_ << 1))};
  return std::string(reinterpret_cast<const char*>(words), sizeof words);
}

std::string Digest::hex() const {
  std::string text;
  for (const char byte : bytes()) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

JitCache::JitCache(std::optional<fs::path> folder, Warn warn)
    : folder_(std::move(folder)), warn_(std::move(warn)) {
  if (!folder_) return;
  std::error_code code;
  if (fs::create_directories(*folder_, code)) {
    fs::permissions(*folder_, fs::perms::owner_all, code);
  }
  const std::string fault = code ? code.message() : ownership_fault(*folder_);
  if (fault.empty()) return;
  warn_(fmt::format("kernel cache {} is not used: {}; set TANG_CACHE_DIR to another folder, or to off",
                    folder_->string(), fault));
  folder_.reset();
}

JitCache JitCache::from_environment() {
  if (const char* folder = environment("TANG_CACHE_DIR")) {
    return JitCache(folder == std::string_view("off") ? std::nullopt : std::optional<fs::path>(folder));
  }
  if (const char* folder = environment("XDG_CACHE_HOME")) return JitCache(fs::path(folder) / "tang");
  if (const char* folder = environment("HOME")) return JitCache(fs::path(folder) / ".cache" / "tang");
  warn_once("no kernel cache: neither TANG_CACHE_DIR, XDG_CACHE_HOME nor HOME is set");
  return JitCache(std::nullopt);
}

std::optional<std::string> JitCache::find(const Digest& key) const {
  std::error_code code;
  if (!folder_ || !fs::exists(path_of(key), code)) return std::nullopt;
  const fs::path path = path_of(key);
  std::string fault = ownership_fault(path);
  if (fault.empty()) {
    try {
      if (auto payload = payload_of(read_file(path), key)) return payload;
      fault = "it is damaged";
    } catch (const Error& error) {
      fault = error.what();
    }
  }
  warn_(fmt::format("kernel cache entry {} is rebuilt: {}", path.string(), fault));
  return std::nullopt;
}

void JitCache::store(const Digest& key, std::string_view payload) const {
  if (!folder_) return;
  std::string entry = fmt::format("{}{}{}", magic, key.bytes(), payload);
  entry += Digest().add(entry).bytes();
  try {
    write_file_atomic(path_of(key), entry);
  } catch (const std::exception& error) {  // the file system's errors too
    warn_(fmt::format("kernel cache: {}", error.what()));
  }
}

void JitCache::warn_once(const std::string& message) {
  static std::atomic_flag warned;
  if (!warned.test_and_set()) std::fputs(fmt::format("warning: {}\n", message).c_str(), stderr);
}

}  // namespace tang
