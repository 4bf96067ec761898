#include "lib/bench/step_profile.h"

#include <chrono>
#include <map>
#include <tuple>

#include "lib/bench/timer.h"

namespace tang {

namespace {

/// Work that is queued ahead of a pass: some milliseconds on any GPU, in which the host gains its lead.
constexpr int64_t lead_bytes = int64_t{256} << 20;
constexpr int lead_fills = 64;

using clock = std::chrono::steady_clock;

/// Milliseconds of each op in one pass over the list.
std::vector<double> pass_cpu(std::span<const ListedOp> ops) {
  std::vector<double> times;
  auto before = clock::now();
  for (const ListedOp& op : ops) {
    op.run();
    const auto after = clock::now();
    times.push_back(std::chrono::duration<double, std::milli>(after - before).count());
    before = after;
  }
  return times;
}

std::vector<double> pass_cuda(Device& device, const Buffer& lead, std::span<const ListedOp> ops) {
  for (int i = 0; i < lead_fills; ++i) device.fill_bytes(lead.data(), 0, lead_bytes);
  std::vector<Event> marks{device.record()};
  for (const ListedOp& op : ops) {
    op.run();
    marks.push_back(device.record());
  }
  device.synchronize();
  std::vector<double> times;
  for (size_t i = 1; i < marks.size(); ++i) times.push_back(device.elapsed_ms(marks[i - 1], marks[i]));
  return times;
}

}  // namespace

std::vector<ProfileRow> profile_step(const Llama& model, int64_t micro_steps, int passes) {
  Device& device = model.device();
  const bool cuda = device.kind() == DeviceKind::cuda;
  const Buffer lead = cuda ? device.allocate(lead_bytes) : Buffer();
  struct Part {
    std::span<const ListedOp> ops;
    int64_t runs;                            // a step
    std::vector<std::vector<double>> times;  // [op][pass]
  };
  std::vector<Part> parts = {{model.first_ops().ops(), 1, {}}};
  if (micro_steps > 1) parts.push_back({model.further_ops().ops(), micro_steps - 1, {}});
  parts.push_back({model.optimizer_ops().ops(), 1, {}});
  for (Part& part : parts) part.times.resize(part.ops.size());
  for (int pass = 0; pass < passes; ++pass) {
    for (Part& part : parts) {
      const std::vector<double> times = cuda ? pass_cuda(device, lead, part.ops) : pass_cpu(part.ops);
      for (size_t i = 0; i < times.size(); ++i) part.times[i].push_back(times[i]);
    }
  }
  std::vector<ProfileRow> rows;
  std::map<std::tuple<std::string_view, std::string_view, CaseText, Dtype>, size_t> places;
  for (const Part& part : parts) {
    for (size_t i = 0; i < part.ops.size(); ++i) {
      const ListedOp& op = part.ops[i];
      OpCall call = op.describe();
      const auto [place, is_new] =
          places.emplace(std::tuple{op.phase, op.run.op(), call.text, call.mode}, rows.size());
      if (is_new) rows.push_back({.phase = op.phase, .op = op.run.op(), .call = std::move(call)});
      ProfileRow& row = rows[place->second];
      row.calls += part.runs;
      row.ms += static_cast<double>(part.runs) * summarise(part.times[i]).median_ms;
    }
  }
  return rows;
}

}  // namespace tang
