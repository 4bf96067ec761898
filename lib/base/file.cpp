#include "lib/base/file.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/text.h"

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

namespace {

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

// A process id alone would not do: threads write one name at once, and so do containers that share a folder
// and count their processes alike.
AtomicFile::AtomicFile(const fs::path& path) : path_(path) {
  static std::atomic<uint64_t> attempts;
  do {
    temporary_ = folder_of(path) /
                 fmt::format(".{}.{}.{}.tmp", path.filename().string(), ::getpid(), attempts.fetch_add(1));
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) fail_input("cannot write {}: {}", path.string(), std::strerror(errno));
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove(temporary_, ignored);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, fs::path())),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_) {}

void AtomicFile::fail(const char* action) const {
  const std::string reason = std::strerror(errno);
  std::error_code ignored;
  const fs::space_info space = fs::space(folder_of(path_), ignored);
  fail_machine("cannot {} {}: {} ({} free after {} were written)", action, path_.string(), reason,
               human_bytes(static_cast<double>(space.available)), human_bytes(static_cast<double>(size_)));
}

void AtomicFile::write_all(uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("write");
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
}

void AtomicFile::append(std::string_view bytes) {
  write_all(size_, bytes);
  size_ += bytes.size();
}

void AtomicFile::overwrite(uint64_t offset, std::string_view bytes) {
  if (offset + bytes.size() > size_) fail_check("{} has only {} bytes yet", path_.string(), size_);
  write_all(offset, bytes);
}

void AtomicFile::close() {
  if (fd_ < 0) return;
  if (::fsync(fd_) != 0) fail("flush");
  if (::close(std::exchange(fd_, -1)) != 0) fail("close");
}

void AtomicFile::commit() {
  close();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename the new");
  temporary_.clear();
  sync_path(folder_of(path_));
}

void write_file_atomic(const fs::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.append(bytes);
  file.commit();
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
