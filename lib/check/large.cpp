#include "lib/check/large.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <set>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/base/text.h"
#include "lib/check/devices.h"
#include "lib/check/exam.h"

namespace tang {

namespace {

/// Entries are looked at in runs that begin at a multiple of this: in the small case they lie on 16 bytes as
/// they did in the large one, whatever a row's width, so that kernels split them in the same way.
constexpr int64_t run = 8;

using Entries = std::vector<int64_t>;

const std::string& sampled_letter(const OpBase& op) { return op.spec().dims.front().letter; }

/// True for an operand made of the case's entries, false for one that all of them share.
bool has_entries(const OpBase& op, const Operand& operand) {
  const std::vector<std::string> dims = words(operand.dims);
  const std::string& letter = sampled_letter(op);
  if (!dims.empty() && dims.front() == letter) return true;
  if (std::find(dims.begin(), dims.end(), letter) != dims.end())
    fail_input("{}: {} [{}] has {} inside, so its entries cannot be looked at one by one", op.name(),
               operand.name, operand.dims, letter);
  return false;
}

int64_t entries_of(const Case& plan) { return plan.values()[sampled_letter(plan.op())]; }

/// Elements from one entry to the next.
int64_t entry_stride(const Case& plan, const OperandPlan& operand) {
  const int64_t packed = operand.size() / entries_of(plan), apart = plan.row_stride(operand.operand->name);
  return apart == 0 ? packed : packed / row_width(operand) * apart;
}

Entries sample(const Case& plan) {
  const int64_t count = entries_of(plan);
  std::set<int64_t> runs = {0, (count - 1) / run};
  const Rng rng(7);
  for (uint64_t i = 0; i < 2; ++i)
    runs.insert(static_cast<int64_t>(rng.below(i, static_cast<uint64_t>(count))) / run);
  for (const OperandPlan& operand : plan.operands()) {
    if (!operand.present || operand.size() == 0 || !has_entries(plan.op(), *operand.operand)) continue;
    for (const int64_t border : {int64_t{1} << 31, int64_t{1} << 32}) {
      for (const int64_t unit : {int64_t{1}, size_of(operand.dtype)}) {
        const int64_t entry =
            border / unit / entry_stride(plan, operand);  // the border lies in it or at its start
        if (entry >= count) continue;
        runs.insert(entry / run);
        runs.insert(std::max<int64_t>(entry - 1, 0) / run);
      }
    }
  }
  Entries entries;
  for (const int64_t begin : runs) {
    for (int64_t i = begin * run; i < std::min(count, (begin + 1) * run); ++i) entries.push_back(i);
  }
  return entries;
}

/// The same case with packed operands, of `entries` entries (0: as many as it has).
CaseText packed_text(const Case& plan, int64_t entries) {
  const std::string first = sampled_letter(plan.op()) + "=";
  CaseText text;
  for (const std::string& word : words(plan.text())) {
    if (word.find('@') != std::string::npos) continue;
    const bool replaced = entries > 0 && word.starts_with(first);
    text += (text.empty() ? "" : " ") + (replaced ? first + std::to_string(entries) : word);
  }
  return text;
}

/// The part of each input that belongs to `entries`.
CaseInputs read_inputs(const Instance& instance, const Case& plan, const Entries& entries) {
  CaseInputs inputs(plan.operands().size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const OperandPlan& operand = plan.operands()[i];
    if (!operand.present || !operand.reads) continue;
    Entries whole(static_cast<size_t>(operand.dims.front()));
    std::iota(whole.begin(), whole.end(), int64_t{0});
    const bool part = has_entries(plan.op(), *operand.operand);
    inputs[i] =
        Instance::values_of(instance.read(operand.operand->name, part ? entries : whole), operand.dtype);
  }
  return inputs;
}

/// Bytes of all operands, gaps between rows included.
double bytes_of(const Case& plan) {
  double total = 0;
  for (const OperandPlan& operand : plan.operands()) {
    if (!operand.present) continue;
    const auto row = static_cast<double>(std::max<int64_t>(row_width(operand), 1));
    const auto apart = static_cast<double>(plan.row_stride(operand.operand->name));
    total += static_cast<double>(operand.size()) * std::max(apart / row, 1.0) *
             static_cast<double>(size_of(operand.dtype));
  }
  return total;
}

/// One implementation in one mode on one large case.
class LargeRun {
 public:
  LargeRun(Device& device, const Case& plan, const Impl& impl) : device_(device), plan_(plan), impl_(impl) {}

  LargeVerdict judge() {
    if (!load()) return verdict_;
    try {
      run_and_compare();
    } catch (const std::exception& error) {
      fail(error.what());
    }
    return verdict_;
  }

 private:
  void fail(const std::string& why) {
    if (verdict_.failure.empty()) verdict_.failure = why;
  }

  /// Whether the device has the memory, by arithmetic: a system that promises more than it has would kill the
  /// process at the first touch.
  bool fits() {
    const std::string text = packed_text(plan_, 0);
    double wanted = bytes_of(plan_);
    if (text != plan_.text()) wanted += bytes_of(Case(plan_.op(), text, plan_.mode()));
    const auto there = static_cast<double>(device_.caps().memory_bytes);
    if (wanted > there)
      verdict_.skipped =
          fmt::format("out of memory: {} wanted, {} there", human_bytes(wanted), human_bytes(there));
    return wanted <= there;
  }

  /// Memory and inputs; false when the device has too little.
  bool load() {
    if (!fits()) return false;
    try {
      large_ = std::make_unique<Instance>(device_, plan_, Placement());
      verdict_.skipped = impl_.supports(device_.caps(), large_->args());
      if (!verdict_.skipped.empty()) return false;
      large_->load_repeated();
      const std::string text = packed_text(plan_, 0);
      if (text == plan_.text()) return true;
      packed_plan_ = std::make_unique<Case>(plan_.op(), text, plan_.mode());
      packed_ = std::make_unique<Instance>(device_, *packed_plan_, Placement());
      packed_->load_from(*large_);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::machine) throw;
      verdict_.skipped = error.what();
      return false;
    }
    return true;
  }

  void launch(const Case& plan, const Instance& instance) const {
    plan.op().prepare_erased(device_, instance.args(), impl_.name)();
  }

  void run_and_compare() {
    const Entries entries = sample(plan_);
    verdict_.looked_at = entries.size();
    Exam exam(Case(plan_.op(), packed_text(plan_, static_cast<int64_t>(entries.size())), plan_.mode()));
    exam.compute(read_inputs(*large_, plan_, entries));
    const Entries last = last_alone();
    const CaseInputs last_inputs = read_inputs(*large_, plan_, last);
    launch(plan_, *large_);
    if (!large_->guards_intact()) return fail("wrote beside an operand");
    if (packed_) {
      launch(*packed_plan_, *packed_);
      if (packed_->digest().hash != large_->digest().hash) return fail("a packed copy gives other bits");
    }
    const Result small = examine(exam, device_, impl_);
    if (!small.unsupported.empty())
      return fail("the entries by themselves are refused: " + small.unsupported);
    if (!small.failure.empty()) return fail("the entries by themselves: " + small.failure);
    verdict_.worst = small.worst;
    compare(small.outputs, entries, "by themselves");
    const Case one(plan_.op(), packed_text(plan_, static_cast<int64_t>(last.size())), plan_.mode());
    Instance alone(device_, one, Placement());
    alone.load(last_inputs);
    launch(one, alone);
    std::string damage;
    const auto outputs = alone.fetch(damage);
    if (!damage.empty()) return fail("the last entry alone " + damage);
    compare(outputs, last, "alone");
  }

  /// The last entry, or its run where bits depend on how a row lies on 16 bytes.
  Entries last_alone() const {
    const int64_t count = entries_of(plan_);
    Entries entries;
    const int64_t first = plan_.op().spec().bitwise_across_strides ? count - 1 : (count - 1) / run * run;
    for (int64_t i = first; i < count; ++i) entries.push_back(i);
    return entries;
  }

  void compare(const std::vector<Instance::Output>& outputs, const Entries& entries, const char* how) {
    for (const Instance::Output& output : outputs) {
      if (!has_entries(plan_.op(), plan_.op().operand(output.name))) continue;
      const std::vector<std::byte> found = large_->read(output.name, entries);
      const auto at = std::mismatch(found.begin(), found.end(), output.bits.begin(), output.bits.end()).first;
      if (at == found.end() && found.size() == output.bits.size()) continue;
      const auto entry = static_cast<size_t>(at - found.begin()) * entries.size() / found.size();
      return fail(fmt::format("{}: entry {} has other bits than {}", output.name, entries[entry], how));
    }
  }

  Device& device_;
  const Case& plan_;
  const Impl& impl_;
  std::unique_ptr<Instance> large_, packed_;
  std::unique_ptr<Case> packed_plan_;
  LargeVerdict verdict_;
};

void print(const Case& plan, const Impl& impl, const LargeVerdict& verdict) {
  fmt::print(
      "{:<20} {:<12} {:<4} {:<26} {}\n", plan.op().name(), impl.name, name_of(plan.mode()), plan.text(),
      !verdict.skipped.empty()   ? "skipped: " + verdict.skipped
      : !verdict.failure.empty() ? "FAILED: " + verdict.failure
                                 : fmt::format("{} entries, same bits by themselves, {:.3f} of the tolerance",
                                               verdict.looked_at, verdict.worst));
  std::fflush(stdout);
}

}  // namespace

LargeVerdict examine_large(Device& device, const Case& plan, const Impl& impl) {
  const bool judged =
      std::any_of(plan.operands().begin(), plan.operands().end(), [&](const OperandPlan& operand) {
        return operand.present && operand.writes && has_entries(plan.op(), *operand.operand);
      });
  if (!judged)
    fail_input("{}: no output has a row for each {}, so there is nothing to look at", plan.op().name(),
               sampled_letter(plan.op()));
  if (entries_of(plan) == 0)
    fail_input("{}: the case '{}' has {} = 0: no entry to look at", plan.op().name(), plan.text(),
               sampled_letter(plan.op()));
  return LargeRun(device, plan, impl).judge();
}

namespace {

/// The case in each of its implementations that is wanted, on each device.
Counts examine_everywhere(const Case& plan, const OpenDevices& devices, const std::string& wanted) {
  Counts counts;
  for (const auto& device : devices.open) {
    for (const Impl& impl : plan.op().spec().impls) {
      if ((wanted != "all" && wanted != impl.name) || impl.kind != device->kind()) continue;
      const LargeVerdict verdict = examine_large(*device, plan, impl);
      ++(!verdict.skipped.empty() ? counts.skipped : verdict.failure.empty() ? counts.passed : counts.failed);
      print(plan, impl, verdict);
    }
  }
  return counts;
}

}  // namespace

Counts check_large(const LargeOptions& options) {
  const auto ops = select_ops(options.ops);
  require_impl(ops, options.impl);
  if (options.only_case.empty() &&
      std::all_of(ops.begin(), ops.end(), [](const OpBase* op) { return op->spec().large.empty(); }))
    fail_input("{} registers no large case: give one with --case", fmt::join(options.ops, ", "));
  const OpenDevices devices = open_devices(options.device);
  Counts counts;
  for (const OpBase* op : ops) {
    std::vector<CaseText> texts = op->spec().large;
    if (!options.only_case.empty()) texts = {options.only_case};
    for (const CaseText& text : texts) {
      for (const Dtype mode : modes_of(*op, parse_modes(options.dtype)))
        counts += examine_everywhere(Case(*op, text, mode), devices, options.impl);
    }
  }
  if (counts.passed + counts.failed == 0 && counts.skipped > 0)
    fail_machine("none of {} large cases runs on {}", counts.skipped, devices.open.back()->caps().name);
  return counts;
}

}  // namespace tang
