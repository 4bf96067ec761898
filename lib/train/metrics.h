// metrics.jsonl: one object a line, for every step, whatever the console shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/file.h"
#include "lib/base/json.h"

namespace tang {

/// A row. Numbers that do not exist are null in the file.
struct MetricsRow {
  std::string kind;                 // start, train, val, end
  int64_t step = 0;                 // optimizer steps done when it was measured
  int64_t tokens = 0;               // trained on so far, this step's included
  std::optional<double> loss;       // nats a token; of the forward, before the update
  std::optional<double> grad_norm;  // before clipping
  std::optional<double> lr;
  std::optional<double> tokens_per_s;
  std::optional<double> mfu;   // 0 … 1
  double seconds = 0;          // since this process began to train
  Json more = Json::object();  // further members, of start and end
};

Json to_json(const MetricsRow& row);

/// Appends rows to a file; they are on their way to disk after flush().
class MetricsLog {
 public:
  /// Opens or creates. Rows past `resumed_step`, and an unfinished last line, are cut.
  MetricsLog(const fs::path& path, int64_t resumed_step);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  void add(const MetricsRow& row) { pending_ += to_json(row).dump() + "\n"; }
  void flush();

 private:
  fs::path path_;
  int fd_ = -1;
  std::string pending_;
};

}  // namespace tang
