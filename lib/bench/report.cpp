#include "lib/bench/report.h"

#include <fmt/format.h>

#include "lib/base/json.h"

namespace tang {

std::string table_header(const std::string& op, const std::string& fixed, const std::string& device) {
  return fmt::format("\n{} on {}: {}\n{:<14} {:<4} {:<12} {:>10} {:>6} {:>8} {:>7} {:>6}\n", op, device,
                     fixed, "shape", "mode", "impl", "ms median", "+-", "TFLOP/s", "GB/s", "roof");
}

std::string table_row(const BenchRow& row) {
  const std::string head = fmt::format("{:<14} {:<4} {:<12} ", row.varying.empty() ? "-" : row.varying,
                                       name_of(row.mode), row.impl);
  if (!row.failure.empty()) return head + "FAILED: " + row.failure + "\n";
  if (!row.skipped.empty()) return head + "not run: " + row.skipped + "\n";
  return head + fmt::format("{:>10.4g} {:>5.1f}% {:>8.4g} {:>7.4g} {:>5.1f}%\n", row.timing.median_ms,
                            100 * row.timing.spread(), row.tflops(), row.gigabytes(),
                            100 * row.roof_fraction());
}

std::string json_row(const BenchRow& row) {
  Json json = Json::object({{"op", row.op},
                            {"case", row.text},
                            {"device", row.device},
                            {"dtype", name_of(row.mode)},
                            {"impl", row.impl}});
  if (!row.failure.empty()) {
    json["failure"] = row.failure;
  } else if (!row.skipped.empty()) {
    json["skipped"] = row.skipped;
  } else {
    json["ms"] = row.timing.median_ms;
    json["ms_p10"] = row.timing.p10_ms;
    json["ms_p90"] = row.timing.p90_ms;
    json["samples"] = row.timing.samples;
    json["tflops"] = row.tflops();
    json["gb_per_s"] = row.gigabytes();
    json["roof_fraction"] = row.roof_fraction();
  }
  return json.dump() + "\n";
}

}  // namespace tang
