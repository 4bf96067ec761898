#include "lib/train/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "lib/base/text.h"

namespace tang {

namespace {

std::string optional_number(const std::optional<double>& value, fmt::format_string<const double&> format) {
  return value ? fmt::format(format, *value) : "-";
}

}  // namespace

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
    fmt::print("\r\x1b[K{}", line);
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
