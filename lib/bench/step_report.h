// What tang-bench step prints.
#pragma once

#include <string>
#include <vector>

#include "lib/base/spans.h"
#include "lib/bench/step_profile.h"
#include "lib/bench/timer.h"

namespace tang {

struct StepReport {
  std::string config, device, precision, attention;
  int64_t parameters = 0, micro_steps = 0, micro_batch = 0, seq_len = 0, vocab_size = 0;
  double loss = 0, grad_norm = 0;               // of the first step
  double first_step_seconds = 0;                // from the process's start to the first step's end
  std::vector<SpanSum> start_up;                // until then
  Timing timing;                                // of whole steps
  double flops_per_token = 0, peak_flops = 0;   // peak 0: unknown
  int64_t planned_bytes = 0, driver_bytes = 0;  // driver 0: it keeps no figure
  std::vector<ProfileRow> rows;

  int64_t tokens() const { return micro_steps * micro_batch * seq_len; }
  double tokens_per_s() const { return static_cast<double>(tokens()) / timing.median_ms * 1e3; }
  double mfu() const { return tokens_per_s() * flops_per_token / peak_flops; }
  double ops_ms() const;
};

/// The rows of one phase, op or shape added up.
struct ProfileSum {
  int64_t calls = 0;
  double ms = 0, roof_ms = 0, flops = 0, bytes = 0;
  void add(const ProfileRow& row);
};

/// Tables for people, at most 80 columns wide.
std::string step_tables(const StepReport& report);
/// One JSON object in one line.
std::string step_json(const StepReport& report);

}  // namespace tang
