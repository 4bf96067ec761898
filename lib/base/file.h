// Files: whole reads, durable atomic writes, read-only maps. Every failure names the path and the system's
// reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tang {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path);

/// A new file that appears under its name only when complete. It is written beside `path` under a hidden
/// name; commit() flushes it to disk and renames it, so that after a power cut `path` holds the old bytes or
/// the new. Without commit() the destructor removes it.
class AtomicFile {
 public:
  explicit AtomicFile(const fs::path& path);
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;

  void append(std::string_view bytes);
  void append(const void* bytes, size_t count) { append({static_cast<const char*>(bytes), count}); }
  /// Overwrites bytes that were appended before (a header whose counts are known last).
  void overwrite(uint64_t offset, std::string_view bytes);
  /// Flushes to disk and closes; nothing can be written afterwards. commit() does it when it was not done.
  void close();
  void commit();

  const fs::path& path() const { return path_; }
  uint64_t size() const { return size_; }

 private:
  [[noreturn]] void fail(const char* action) const;
  void write_all(uint64_t offset, std::string_view bytes);

  fs::path path_, temporary_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

/// Writes beside `path`, fsyncs, renames, fsyncs the folder: after a power cut `path` holds the old bytes or
/// the new.
void write_file_atomic(const fs::path& path, std::string_view bytes);

/// fsync of a file or folder.
void sync_path(const fs::path& path);

/// Names matching a shell pattern in byte order; a plain path matches itself if it exists.
std::vector<fs::path> glob(const std::string& pattern);

/// A file mapped read-only for as long as the object lives. Empty files map to an empty span.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tang
