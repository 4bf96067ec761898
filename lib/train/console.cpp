#include "lib/train/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "lib/base/text.h"

namespace tang {

namespace {

std::string optional_number(const std::optional<double>& value, fmt::format_string<const double&> format) {
  return value ? fmt::format(format, *value) : "-";
}

/// Columns of the terminal; 80 where it does not say.
size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string live_line(const std::string& line, size_t width) {
  std::string shorter;
  for (const char c :
       line.starts_with("step") ? trim(std::string_view(line).substr(4)) : std::string_view(line)) {
    if (c != ' ' || shorter.empty() || shorter.back() != ' ') shorter += c;
  }
  // A line that fills the last column wraps, and then the next one no longer overwrites it.
  return shorter.substr(0, std::max<size_t>(width, 2) - 1);
}

Console::Console(int64_t total_steps) : total_steps_(total_steps), live_(::isatty(STDOUT_FILENO) == 1) {}

Console::~Console() {
  if (line_open_) std::fputs("\n", stdout);
  std::fflush(stdout);
}

void Console::step(const MetricsRow& row, double eta_seconds, int64_t memory_bytes, bool due) {
  using std::chrono::steady_clock;
  const auto now = steady_clock::now();
  const bool last = row.step == total_steps_;
  if (live_ ? !last && now - last_drawn_ < std::chrono::milliseconds(100) : !due && !last) return;
  last_drawn_ = now;
  const std::string total = std::to_string(total_steps_);
  const std::string line = fmt::format(
      "step {:>{}}/{}  loss {}  norm {}  lr {}  {} tok/s  mfu {}  mem {}  eta {}", row.step, total.size(),
      total, optional_number(row.loss, "{:.4f}"), optional_number(row.grad_norm, "{:.3f}"),
      optional_number(row.lr, "{:.2e}"), row.tokens_per_s ? human_count(*row.tokens_per_s) : "-",
      row.mfu ? fmt::format("{:.1f}%", 100 * *row.mfu) : "-", human_bytes(static_cast<double>(memory_bytes)),
      human_seconds(eta_seconds));
  if (live_) {
    fmt::print("\r\x1b[K{}", live_line(line, terminal_width()));
  } else {
    fmt::print("{}\n", line);
  }
  line_open_ = live_;
  std::fflush(stdout);
}

void Console::say(const std::string& line) {
  fmt::print("{}{}\n", line_open_ ? "\n" : "", line);
  line_open_ = false;
  std::fflush(stdout);
}

}  // namespace tang
