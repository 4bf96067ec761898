#include "lib/base/spans.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>

#include "lib/base/text.h"

namespace tang {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t nowhere = SIZE_MAX;

struct Row {
  const char* name;
  size_t around;  // its row, or nowhere
  bool background;
  SpanSum sum;
};

/// All rows so far, and where the process's clock stands beside the steady one.
struct Book {
  std::mutex mutex;
  std::vector<Row> rows;
  const std::thread::id first_thread = std::this_thread::get_id();
  const Clock::time_point opened = Clock::now();
  const double opened_at = seconds_of_process();

  double seconds_at(Clock::time_point time) const {
    return opened_at + std::chrono::duration<double>(time - opened).count();
  }
};

Book& book() {
  static Book instance;
  return instance;
}

double seconds_since_boot() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

thread_local size_t innermost = nowhere;  // this thread's open span

void append(const std::vector<Row>& rows, size_t around, std::vector<SpanSum>& list) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].around != around) continue;
    list.push_back(rows[i].sum);
    append(rows, i, list);
  }
}

}  // namespace

namespace {

/// When the system started this process, in seconds since boot.
double started_at() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  return start_of_process(text).value_or(seconds_since_boot());
}

}  // namespace

std::optional<double> start_of_process(std::string_view stat) {
  const size_t name_end = stat.rfind(')');  // the program's name may hold anything, spaces too
  if (name_end == std::string_view::npos) return std::nullopt;
  constexpr size_t start_word = 19;  // after the name
  const std::vector<std::string> fields = words(stat.substr(name_end + 1));
  if (fields.size() <= start_word) return std::nullopt;
  const std::string& ticks = fields[start_word];
  uint64_t count = 0;
  const auto [end, code] = std::from_chars(ticks.data(), ticks.data() + ticks.size(), count);
  if (code != std::errc{} || end != ticks.data() + ticks.size()) return std::nullopt;
  return static_cast<double>(count) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double seconds_of_process() {
  static const double started = started_at();
  return seconds_since_boot() - started;
}

Span::Span(const char* name) {
  Book& all = book();
  begin_ = Clock::now();
  const bool background = std::this_thread::get_id() != all.first_thread;
  const std::lock_guard lock(all.mutex);
  for (row_ = 0; row_ < all.rows.size(); ++row_) {
    const Row& row = all.rows[row_];
    if (row.around == innermost && row.background == background && std::strcmp(row.name, name) == 0) break;
  }
  if (row_ == all.rows.size()) {
    const int depth = innermost == nowhere ? 0 : all.rows[innermost].sum.depth + 1;
    all.rows.push_back({name, innermost, background, {name, depth, background, all.seconds_at(begin_)}});
  }
  ++all.rows[row_].sum.count;
  innermost = row_;
}

Span::~Span() {
  const auto end = Clock::now();
  Book& all = book();
  const std::lock_guard lock(all.mutex);
  all.rows[row_].sum.seconds += std::chrono::duration<double>(end - begin_).count();
  innermost = all.rows[row_].around;
}

std::vector<SpanSum> spans() {
  Book& all = book();
  const std::lock_guard lock(all.mutex);
  std::vector<SpanSum> list;
  append(all.rows, nowhere, list);
  return list;
}

std::string describe_spans(const std::vector<SpanSum>& rows, double until) {
  std::string text = fmt::format("{:<40} {:>7} {:>8} {:>6}\n", "start-up", "from s", "seconds", "calls");
  for (const SpanSum& row : rows) {
    const std::string name = std::string(2 * static_cast<size_t>(row.depth), ' ') + row.name +
                             (row.background ? " (other threads)" : "");
    text += fmt::format("{:<40} {:>7.2f} {:>8.3f} {:>6}\n", name, row.begin, row.seconds, row.count);
  }
  return text + fmt::format("{:<40} {:>7.2f}\n", "end of the first step", until);
}

}  // namespace tang
