// What a run says on stdout: one live line on a terminal, plain lines in a pipe.
#pragma once

#include <chrono>
#include <string>

#include "lib/train/metrics.h"

namespace tang {

class Console {
 public:
  explicit Console(int64_t total_steps);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// A step's line. On a terminal it replaces the last one (at most ten times a second), else it is printed
  /// where `due`.
  void step(const MetricsRow& row, double eta_seconds, int64_t memory_bytes, bool due);
  /// A line that stays.
  void say(const std::string& line);

 private:
  const int64_t total_steps_;
  const bool live_;
  bool line_open_ = false;
  std::chrono::steady_clock::time_point last_drawn_;
};

/// `line` as it is shown on a terminal of `width` columns: without its first word, spaces single, cut to fit.
std::string live_line(const std::string& line, size_t width);

}  // namespace tang
