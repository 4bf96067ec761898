#include "lib/train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/error.h"
#include "lib/base/text.h"

namespace tang {

namespace {

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

/// The rows of `text` that a run resumed at `step` keeps.
std::string rows_until(const std::string& text, int64_t step, const fs::path& path) {
  std::string kept;
  int64_t line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // a line that was never finished
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const Json row = Json::parse(line, fmt::format("{} line {}", path.string(), ++line_number));
    if (row.at("step").as_int() <= step) kept += line + "\n";
  }
  return kept;
}

}  // namespace

Json to_json(const MetricsRow& row) {
  Json result = Json::object({{"kind", row.kind},
                              {"step", row.step},
                              {"tokens", row.tokens},
                              {"loss", number(row.loss)},
                              {"grad_norm", number(row.grad_norm)},
                              {"lr", number(row.lr)},
                              {"tokens_per_s", number(row.tokens_per_s)},
                              {"mfu", number(row.mfu)},
                              {"seconds", row.seconds}});
  for (const auto& [name, value] : row.more.members()) result[name] = value;
  return result;
}

MetricsLog::MetricsLog(const fs::path& path, int64_t resumed_step) : path_(path) {
  if (fs::exists(path)) write_file_atomic(path, rows_until(read_file(path), resumed_step, path));
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_input("cannot write {}: {}", path.string(), std::strerror(errno));
}

MetricsLog::~MetricsLog() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsLog::flush() {
  std::string_view left = pending_;
  while (!left.empty()) {
    const ssize_t count = ::write(fd_, left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail_machine("cannot write {}: {}", path_.string(), std::strerror(errno));
    left.remove_prefix(static_cast<size_t>(count));
  }
  pending_.clear();
}

}  // namespace tang
