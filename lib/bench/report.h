// One row of a bench, as a table for people or as JSON lines for programs.
#pragma once

#include <string>

#include "lib/bench/timer.h"
#include "lib/ops/case.h"

namespace tang {

struct BenchRow {
  std::string op, text, varying;  // the whole case, and what the table shows of it
  std::string device, impl;
  Dtype mode = Dtype::f32;
  std::string failure;  // why there is no time
  std::string skipped;  // the implementation's own reason for not running
  Timing timing;
  double flops = 0, bytes = 0, roof_ms = 0;

  double tflops() const { return flops / timing.median_ms / 1e9; }
  double gigabytes() const { return bytes / timing.median_ms / 1e6; }
  double roof_fraction() const { return roof_ms / timing.median_ms; }
};

/// The op, what is fixed in its sweep, and the columns' names.
std::string table_header(const std::string& op, const std::string& fixed, const std::string& device);
std::string table_row(const BenchRow& row);
std::string json_row(const BenchRow& row);

}  // namespace tang
