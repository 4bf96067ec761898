#include "lib/check/parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "lib/base/error.h"
#include "lib/check/devices.h"
#include "lib/check/exam.h"

namespace tang {

namespace {

/// Computes references on threads of its own, in order, a window ahead of the consumer.
class ReferencePool {
 public:
  explicit ReferencePool(std::vector<std::unique_ptr<Exam>>& exams) : exams_(exams), states_(exams.size()) {
    const unsigned count = std::max(1u, std::thread::hardware_concurrency());
    window_ = 4 * count;
    for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
  }
  ~ReferencePool() {
    {
      const std::lock_guard lock(mutex_);
      next_ = exams_.size();
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  /// Waits for exam `index`; the reference's own failure, or "".
  std::string wait(size_t index) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return states_[index].done; });
    return states_[index].failure;
  }
  void release(size_t index) {
    exams_[index]->forget();
    const std::lock_guard lock(mutex_);
    ++released_;
    changed_.notify_all();
  }

 private:
  struct State {
    bool done = false;
    std::string failure;
  };

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return next_ >= exams_.size() || next_ < released_ + window_; });
      if (next_ >= exams_.size()) return;
      const size_t index = next_++;
      lock.unlock();
      std::string failure;
      try {
        exams_[index]->compute();
      } catch (const std::exception& error) {
        failure = fmt::format("the reference failed: {}", error.what());
      }
      lock.lock();
      states_[index] = {true, failure};
      changed_.notify_all();
    }
  }

  std::vector<std::unique_ptr<Exam>>& exams_;
  std::vector<State> states_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t next_ = 0, released_ = 0, window_ = 1;
};

/// What one printed line sums up.
struct Row {
  std::string impl;
  Counts counts;
  double worst = 0, from_cpu = -1;
  std::string skipped_because;
  std::vector<std::string> failures;
};

class Parity {
 public:
  explicit Parity(const ParityOptions& options)
      : options_(options), ops_(select_ops(options.ops)), devices_(open_devices(options.device)) {
    require_impl(ops_, options.impl);
    for (const OpBase* op : ops_) {
      for (const Dtype mode : modes_of(*op, parse_modes(options.dtype))) add_exams(*op, mode);
    }
  }

  Counts run() {
    ReferencePool pool(exams_);
    for (const auto& device : devices_.open) {
      if (device->kind() == DeviceKind::cuda) ask_for_kernels(*device);
    }
    if (!options_.quiet)
      fmt::print("{:<22} {:<14} {:<4} {:>5} {:>9}  {}\n", "op", "impl", "mode", "cases", "worst/tol",
                 "verdict");
    std::vector<Row> rows;
    for (size_t i = 0; i < exams_.size(); ++i) {
      const std::string failure = pool.wait(i);
      examine_all(*exams_[i], failure, rows);
      pool.release(i);
      const bool last = i + 1 == exams_.size() || &exams_[i + 1]->plan().op() != &exams_[i]->plan().op() ||
                        exams_[i + 1]->plan().mode() != exams_[i]->plan().mode();
      if (!last) continue;
      for (const Row& row : rows) print(exams_[i]->plan(), row);
      rows.clear();
    }
    if (absent_ > 0) fmt::print("cuda: {}; {} cases skipped\n", devices_.absent, absent_);
    return total_;
  }

 private:
  void add_exams(const OpBase& op, Dtype mode) {
    if (!options_.only_case.empty()) {
      exams_.push_back(std::make_unique<Exam>(Case(op, options_.only_case, mode)));
      return;
    }
    for (Case& plan : expand_cases(op, mode)) {
      if (!options_.small || is_small(plan)) exams_.push_back(std::make_unique<Exam>(std::move(plan)));
    }
  }

  /// Quick even where a tool runs every kernel a hundred times slower.
  static bool is_small(const Case& plan) { return plan.flops() <= 0x1p25 && plan.bytes() <= 0x1p22; }

  bool chosen(const Impl& impl) const { return options_.impl == "all" || options_.impl == impl.name; }

  /// Compilation runs in the background while the references are computed.
  void ask_for_kernels(Device& device) {
    const Buffer memory = device.allocate(4096);
    for (const auto& exam : exams_) {
      const OpBase& op = exam->plan().op();
      const auto args = exam->plan().make_args(memory.data());
      for (const Impl& impl : op.spec().impls) {
        if (impl.kind != device.kind() || !chosen(impl)) continue;
        try {
          if (impl.supports(device.caps(), args.get()).empty())
            op.prepare_erased(device, args.get(), impl.name);
        } catch (const Error&) {
          // The examination meets it again and reports it.
        }
      }
    }
  }

  Row& row_of(std::vector<Row>& rows, const std::string& impl) const {
    for (Row& row : rows) {
      if (row.impl == impl) return row;
    }
    rows.push_back({.impl = impl});
    return rows.back();
  }

  void examine_all(const Exam& exam, const std::string& broken, std::vector<Row>& rows) {
    const Result* on_cpu = nullptr;
    std::vector<std::unique_ptr<Result>> results;
    for (const Impl& impl : exam.plan().op().spec().impls) {
      if (!chosen(impl)) continue;
      const auto device = std::find_if(devices_.open.begin(), devices_.open.end(),
                                       [&](const auto& open) { return open->kind() == impl.kind; });
      if (device == devices_.open.end()) {
        if (!devices_.absent.empty()) ++absent_, ++total_.skipped;
        continue;
      }
      Row& row = row_of(rows, impl.name);
      Result result;
      result.failure = broken;
      if (broken.empty()) result = examine(exam, **device, impl);
      record(exam, impl, result, row);
      if (impl.kind == DeviceKind::cuda && on_cpu != nullptr && result.unsupported.empty())
        row.from_cpu = std::max(row.from_cpu, distance(exam, result, *on_cpu));
      if (impl.kind == DeviceKind::cpu && on_cpu == nullptr && !result.outputs.empty()) {
        results.push_back(std::make_unique<Result>(std::move(result)));
        on_cpu = results.back().get();
      }
    }
  }

  void record(const Exam& exam, const Impl& impl, const Result& result, Row& row) {
    if (!result.unsupported.empty()) {
      ++row.counts.skipped;
      row.skipped_because = result.unsupported;
      return;
    }
    row.worst = std::max(row.worst, result.worst);
    if (result.failure.empty()) {
      ++row.counts.passed;
      return;
    }
    ++row.counts.failed;
    const Case& plan = exam.plan();
    row.failures.push_back(fmt::format(
        "  FAILED {}: {}\n    tang-check parity {} --impl {} --dtype {} --case \"{}\"", plan.text(),
        result.failure, plan.op().name(), impl.name, name_of(plan.mode()), plan.text()));
  }

  void print(const Case& plan, const Row& row) {
    constexpr size_t most_shown = 8;
    total_ += row.counts;
    if (options_.quiet && row.failures.empty()) return;
    std::string verdict = row.counts.failed > 0   ? fmt::format("{} FAILED", row.counts.failed)
                          : row.counts.passed > 0 ? "ok"
                                                  : "not run";
    if (row.from_cpu >= 0) verdict += fmt::format(", {:.2f} from cpu", row.from_cpu);
    if (row.counts.skipped > 0)
      verdict += fmt::format(", {} skipped:\n    {}", row.counts.skipped, row.skipped_because);
    fmt::print("{:<22} {:<14} {:<4} {:>5} {:>9.3f}  {}\n", plan.op().name(), row.impl, name_of(plan.mode()),
               row.counts.passed + row.counts.failed, row.worst, verdict);
    for (size_t i = 0; i < std::min(row.failures.size(), most_shown); ++i)
      fmt::print("{}\n", row.failures[i]);
    if (row.failures.size() > most_shown) fmt::print("  and {} more\n", row.failures.size() - most_shown);
    std::fflush(stdout);
  }

  const ParityOptions& options_;
  std::vector<const OpBase*> ops_;
  OpenDevices devices_;
  std::vector<std::unique_ptr<Exam>> exams_;
  Counts total_;
  int64_t absent_ = 0;
};

}  // namespace

Counts check_parity(const ParityOptions& options) {
  if (options.small && !options.only_case.empty())
    fail_input("--small chooses among the registered cases: leave it out beside --case");
  return Parity(options).run();
}

}  // namespace tang
