// Where a process's first seconds go. What may take long names itself with a Span; a report asks for all of
// them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tang {

/// Seconds since the system started this process, to a hundredth; where /proc does not say when that was,
/// since the first call.
double seconds_of_process();

/// When a process started, in seconds since boot, from its /proc/PID/stat; nothing when that is no such text.
std::optional<double> start_of_process(std::string_view stat);

/// The time from here to the end of the scope, under `name` (a literal). Any thread may; a pair of clock
/// reads and a lock each, so it belongs around what happens some hundred times, not in loops.
class Span {
 public:
  explicit Span(const char* name);
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  size_t row_;
  std::chrono::steady_clock::time_point begin_;
};

/// All spans of one name in one place: inside the same other spans, on the first thread or on the others.
struct SpanSum {
  std::string name;
  int depth = 0;            // spans around it
  bool background = false;  // on other threads: there seconds of several may pass at once
  double begin = 0;         // of the first, in seconds of the process
  double seconds = 0;       // of all of them; 0 while the first has not ended
  int64_t count = 0;
};

/// In order of first beginning, each after the one around it.
std::vector<SpanSum> spans();

/// One line each, indented by depth; `until` (seconds of the process) closes the table.
std::string describe_spans(const std::vector<SpanSum>& rows, double until);

}  // namespace tang
