#include "lib/bench/step_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/json.h"
#include "lib/base/text.h"

namespace tang {

namespace {

constexpr size_t name_width = 37;  // with the figures: 80 columns

/// Sums by a name of the rows, in order of first appearance.
template <class Name>
std::vector<std::pair<std::string, ProfileSum>> grouped(const std::vector<ProfileRow>& rows,
                                                        const Name& name) {
  std::vector<std::pair<std::string, ProfileSum>> groups;
  for (const ProfileRow& row : rows) {
    const std::string wanted = name(row);
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& known) { return known.first == wanted; });
    if (group == groups.end()) group = groups.insert(groups.end(), {wanted, ProfileSum()});
    group->second.add(row);
  }
  return groups;
}

template <class Groups>
void slowest_first(Groups& groups) {
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
}

/// At most six characters for anything below a million.
std::string compact(double value) {
  return fmt::format("{:.{}f}", value, value < 100 ? 3 : value < 1000 ? 1 : 0);
}

/// A name that is too long has its figures on the next line.
std::string line(std::string name, const ProfileSum& sum, double step_ms) {
  if (name.size() > name_width) name += "\n" + std::string(name_width, ' ');
  return fmt::format("{:<{}} {:>5} {:>8} {:>5.1f}% {:>7} {:>5.0f} {:>5.1f}%\n", name, name_width, sum.calls,
                     compact(sum.ms), 100 * sum.ms / step_ms, compact(sum.flops / sum.ms / 1e9),
                     sum.bytes / sum.ms / 1e6, 100 * sum.roof_ms / sum.ms);
}

std::string columns(const char* name) {
  return fmt::format("\n{:<{}} {:>5} {:>8} {:>6} {:>7} {:>5} {:>6}\n", name, name_width, "calls", "ms",
                     "step", "TFLOP/s", "GB/s", "roof");
}

std::string headline(const StepReport& r) {
  std::string text =
      fmt::format("{} on {}, {}, attention {}\n", r.config, r.device, r.precision, r.attention);
  text += fmt::format("{} parameters; a step is {} tokens, {} x {} sequences of {}, all random\n",
                      human_count(static_cast<double>(r.parameters)), r.tokens(), r.micro_steps,
                      r.micro_batch, r.seq_len);
  text += fmt::format("first step   loss {:.4f} (ln V {:.4f}), gradient norm {:.4f}; same bits twice\n",
                      r.loss, std::log(static_cast<double>(r.vocab_size)), r.grad_norm);
  text += fmt::format("             ended {:.2f} s after the process started\n", r.first_step_seconds);
  text += fmt::format("step         {:.5g} ms, median of {} (p10 {:.5g}, p90 {:.5g}, +-{:.1f}%)\n",
                      r.timing.median_ms, r.timing.samples, r.timing.p10_ms, r.timing.p90_ms,
                      100 * r.timing.spread());
  text += fmt::format("speed        {:.0f} tokens/s\n", r.tokens_per_s());
  if (r.peak_flops > 0) {
    text += fmt::format("MFU          {:.1f}% = tokens/s x {:.4g} FLOPs a token / {:.4g} TFLOP/s\n",
                        100 * r.mfu(), r.flops_per_token, r.peak_flops / 1e12);
    text += "             6 x matmul parameters + 6 x L x T x H x D; dense datasheet peak\n";
  } else {
    text += fmt::format("MFU          unknown: no datasheet peak; {:.4g} FLOPs a token, {:.4g} TFLOP/s\n",
                        r.flops_per_token, r.tokens_per_s() * r.flops_per_token / 1e12);
  }
  return text + fmt::format("memory       planned {}, the driver counts {}\n",
                            human_bytes(static_cast<double>(r.planned_bytes)),
                            r.driver_bytes > 0 ? human_bytes(static_cast<double>(r.driver_bytes)) : "none");
}

Json with_figures(Json json, const ProfileSum& sum) {
  json["calls"] = sum.calls;
  json["ms"] = sum.ms;
  json["tflops"] = sum.flops / sum.ms / 1e9;
  json["gb_per_s"] = sum.bytes / sum.ms / 1e6;
  json["roof_fraction"] = sum.roof_ms / sum.ms;
  return json;
}

}  // namespace

double StepReport::ops_ms() const {
  double sum = 0;
  for (const ProfileRow& row : rows) sum += row.ms;
  return sum;
}

void ProfileSum::add(const ProfileRow& row) {
  calls += row.calls;
  ms += row.ms;
  roof_ms += row.roof_ms;
  flops += static_cast<double>(row.calls) * row.call.flops;
  bytes += static_cast<double>(row.calls) * row.call.bytes;
}

std::string step_tables(const StepReport& r) {
  const double step = r.timing.median_ms;
  std::string text = headline(r) + "\n" + describe_spans(r.start_up, r.first_step_seconds) + columns("phase");
  ProfileSum all;
  for (const ProfileRow& row : r.rows) all.add(row);
  for (const auto& [name, sum] :
       grouped(r.rows, [](const ProfileRow& row) { return std::string(row.phase); }))
    text += line(name, sum, step);
  text += line("all ops", all, step);
  text += fmt::format("the ops sum to {:.1f}% of the step\n", 100 * r.ops_ms() / step);
  text += columns("op, shape");
  auto ops = grouped(r.rows, [](const ProfileRow& row) { return std::string(row.op); });
  slowest_first(ops);
  for (const auto& [op, sum] : ops) {
    text += line(op, sum, step);
    std::vector<ProfileRow> own;
    std::copy_if(r.rows.begin(), r.rows.end(), std::back_inserter(own),
                 [&op = op](const ProfileRow& row) { return row.op == op; });
    auto shapes = grouped(own, [](const ProfileRow& row) { return "  " + row.call.text; });
    slowest_first(shapes);
    if (shapes.size() == 1) continue;
    for (const auto& [shape, part] : shapes) text += line(shape, part, step);
  }
  return text;
}

std::string step_json(const StepReport& r) {
  Json json = Json::object({{"config", r.config},
                            {"device", r.device},
                            {"precision", r.precision},
                            {"attention", r.attention},
                            {"parameters", r.parameters},
                            {"tokens", r.tokens()},
                            {"micro_batch", r.micro_batch},
                            {"seq_len", r.seq_len},
                            {"loss", r.loss},
                            {"grad_norm", r.grad_norm},
                            {"first_step_s", r.first_step_seconds},
                            {"ms", r.timing.median_ms},
                            {"ms_p10", r.timing.p10_ms},
                            {"ms_p90", r.timing.p90_ms},
                            {"samples", r.timing.samples},
                            {"tokens_per_s", r.tokens_per_s()},
                            {"flops_per_token", r.flops_per_token},
                            {"mfu", r.peak_flops > 0 ? Json(r.mfu()) : Json()},
                            {"planned_bytes", r.planned_bytes},
                            {"driver_bytes", r.driver_bytes > 0 ? Json(r.driver_bytes) : Json()},
                            {"ops_ms", r.ops_ms()},
                            {"start_up", Json::array()},
                            {"phases", Json::array()},
                            {"ops", Json::array()}});
  for (const SpanSum& span : r.start_up) {
    json["start_up"].push_back(Json::object({{"name", span.name},
                                             {"depth", span.depth},
                                             {"background", span.background},
                                             {"begin_s", span.begin},
                                             {"seconds", span.seconds},
                                             {"calls", span.count}}));
  }
  for (const auto& [name, sum] :
       grouped(r.rows, [](const ProfileRow& row) { return std::string(row.phase); })) {
    json["phases"].push_back(with_figures(Json::object({{"phase", name}}), sum));
  }
  for (const ProfileRow& row : r.rows) {
    const Json op = Json::object(
        {{"op", row.op}, {"phase", row.phase}, {"case", row.call.text}, {"dtype", name_of(row.call.mode)}});
    ProfileSum sum;
    sum.add(row);
    json["ops"].push_back(with_figures(op, sum));
  }
  return json.dump() + "\n";
}

}  // namespace tang
