#include "lib/base/file.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/error.h"

namespace tang {

namespace {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail_input("cannot open {}: {}", path.string(), std::strerror(errno));
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

size_t regular_size(const Descriptor& file, const fs::path& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_input("cannot read {}: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail_input("{} is not a regular file", path.string());
  return static_cast<size_t>(info.st_size);
}

void write_all(const Descriptor& file, const fs::path& path, std::string_view bytes) {
  const size_t whole = bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const std::string reason = std::strerror(errno);
      std::error_code ignored;
      const auto space = fs::space(path.parent_path(), ignored);
      fail_machine("cannot write {}: {} ({} bytes needed, {} free)", path.string(), reason, whole,
                   space.available);
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace

std::string read_file(const fs::path& path) {
  const Descriptor file(path, O_RDONLY);
  std::string bytes(regular_size(file, path), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_input("cannot read {}: {}", path.string(), std::strerror(errno));
    if (count == 0) fail_input("{} ended at byte {} of {}", path.string(), done, bytes.size());
    done += static_cast<size_t>(count);
  }
  return bytes;
}

void sync_path(const fs::path& path) {
  const Descriptor file(path, O_RDONLY);
  if (::fsync(file.get()) != 0 && errno != EINVAL) {
    fail_machine("cannot flush {} to disk: {}", path.string(), std::strerror(errno));
  }
}

void write_file_atomic(const fs::path& path, std::string_view bytes) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const fs::path temporary = folder / fmt::format(".{}.{}.tmp", path.filename().string(), ::getpid());
  try {
    const Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    write_all(file, temporary, bytes);
    if (::fsync(file.get()) != 0)
      fail_machine("cannot flush {}: {}", temporary.string(), std::strerror(errno));
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  fs::rename(temporary, path);
  sync_path(folder);
}

std::vector<fs::path> glob(const std::string& pattern) {
  glob_t found{};
  const int code = ::glob(pattern.c_str(), 0, nullptr, &found);  // sorted by byte value
  std::vector<fs::path> paths(found.gl_pathv, found.gl_pathv + (code == 0 ? found.gl_pathc : 0));
  ::globfree(&found);
  return paths;
}

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const Descriptor file(path, O_RDONLY);
  size_ = regular_size(file, path);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) fail_machine("cannot map {}: {}", path.string(), std::strerror(errno));
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace tang
