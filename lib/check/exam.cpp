#include "lib/check/exam.h"

#include <algorithm>
#include <cmath>

#include "lib/base/error.h"
#include "lib/base/text.h"

namespace tang {

void Exam::compute(CaseInputs inputs) {
  inputs_ = std::move(inputs);
  reference_ = plan_.make_ref(inputs_);
  plan_.op().spec().reference(*reference_);
  if (plan_.op().spec().plain) {
    plain_ = plan_.make_ref(inputs_);
    plan_.op().spec().plain(*plain_);
  }
}

void Exam::forget() {
  inputs_ = {};
  reference_.reset();
  plain_.reset();
}

namespace {

/// One implementation under one exam; each step returns "" or what is wrong.
class Examination {
 public:
  Examination(const Exam& exam, Device& device, const Impl& impl)
      : exam_(exam), device_(device), impl_(impl) {}

  Result run() {
    // Packed rows come first: a strided case is compared with them.
    result_.outputs = run_once({}, "");
    if (!result_.unsupported.empty() || !result_.failure.empty()) return std::move(result_);
    judge();
    same_bits({.garbage = 0x7b}, "a second run");
    if (!exam_.plan().op().spec().in_place.empty()) same_bits({.in_place = true}, "the run in place");
    if (exam_.plan().strided()) {
      strided(8);
      strided(5);
    }
    return std::move(result_);
  }

 private:
  std::vector<Instance::Output> run_once(const Placement& placement, const std::string& what) {
    Instance instance(device_, exam_.plan(), placement);
    if (placement.in_place && !instance.has_shared()) return {};
    const std::string reason = impl_.supports(device_.caps(), instance.args());
    if (!reason.empty()) {
      if (what.empty()) result_.unsupported = reason;
      return {};
    }
    instance.load(exam_.inputs());
    exam_.plan().op().prepare_erased(device_, instance.args(), impl_.name)();
    std::string damage;
    auto outputs = instance.fetch(damage);
    if (!damage.empty()) fail(what.empty() ? damage : what + " " + damage);
    return outputs;
  }

  void fail(const std::string& why) {
    if (result_.failure.empty()) result_.failure = why;
  }

  void judge() {
    for (const Instance::Output& output : result_.outputs) {
      const RefOutput& reference = exam_.reference().out(output.name);
      const std::vector<double> got = output.values();
      const Comparison found = compare(got, reference, output.dtype, exam_.plan().mode());
      result_.worst = std::max(result_.worst, found.fraction);
      if (found.wrong > 0) {
        fail(fmt::format("{}[{}]: got {:.9g}, wanted {:.9g}, tolerance {:.3g} ({} of {} elements are wrong)",
                         output.name, found.index, found.got, found.wanted, found.allowed, found.wrong,
                         got.size()));
      }
      if (exam_.plain() != nullptr) judge_plain(output, reference, found.error);
    }
  }

  /// Flash attention's own rule, for ops that say what a plain version is.
  void judge_plain(const Instance::Output& output, const RefOutput& reference, double error) {
    const std::vector<double>& plain = exam_.plain()->out(output.name).value;
    double plain_error = 0, largest = 0;
    for (size_t i = 0; i < plain.size(); ++i) {
      plain_error = std::max(plain_error, std::abs(plain[i] - reference.value[i]));
      largest = std::max(largest, std::abs(reference.value[i]));
    }
    const double factor = exam_.plan().op().spec().plain_factor;
    const double allowed = factor * plain_error + unit_roundoff(output.dtype) * largest;
    if (error <= allowed || result_.outputs.empty()) return;
    fail(
        fmt::format("{}: largest error {:.3g}, but the plain version's is {:.3g} ({:g} times that plus one "
                    "rounding is {:.3g})",
                    output.name, error, plain_error, factor, allowed));
  }

  void same_bits(const Placement& placement, const std::string& what) {
    if (!result_.failure.empty()) return;
    const auto other = run_once(placement, what);
    for (size_t k = 0; k < other.size(); ++k) {
      const auto &mine = result_.outputs[k].bits, &theirs = other[k].bits;
      const auto at = std::mismatch(mine.begin(), mine.end(), theirs.begin()).first;
      if (at == mine.end()) continue;
      fail(fmt::format("{} gives other bits: {}[{}]", what, other[k].name,
                       (at - mine.begin()) / size_of(other[k].dtype)));
    }
  }

  void strided(int64_t padding) {
    const std::string what = fmt::format("the run with rows {} elements apart", padding);
    if (exam_.plan().op().spec().bitwise_across_strides) return same_bits({.row_padding = padding}, what);
    if (!result_.failure.empty()) return;
    for (const Instance::Output& output : run_once({.row_padding = padding}, what)) {
      const Comparison found =
          compare(output.values(), exam_.reference().out(output.name), output.dtype, exam_.plan().mode());
      result_.worst = std::max(result_.worst, found.fraction);
      if (found.wrong > 0) {
        fail(fmt::format("{}: {}[{}]: got {:.9g}, wanted {:.9g}, tolerance {:.3g}", what, output.name,
                         found.index, found.got, found.wanted, found.allowed));
      }
    }
  }

  const Exam& exam_;
  Device& device_;
  const Impl& impl_;
  Result result_;
};

}  // namespace

Result examine(const Exam& exam, Device& device, const Impl& impl) {
  try {
    return Examination(exam, device, impl).run();
  } catch (const std::exception& error) {
    Result result;
    result.failure = error.what();
    return result;
  }
}

double distance(const Exam& exam, const Result& a, const Result& b) {
  double worst = 0;
  for (size_t k = 0; k < a.outputs.size() && k < b.outputs.size(); ++k) {
    const std::vector<double> x = a.outputs[k].values(), y = b.outputs[k].values();
    const RefOutput& reference = exam.reference().out(a.outputs[k].name);
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
      const double allowed = tolerance(reference, i, a.outputs[k].dtype, exam.plan().mode());
      worst = std::max(worst, std::abs(x[i] - y[i]) / (2 * allowed));
    }
  }
  return worst;
}

std::vector<Case> expand_cases(const OpBase& op, Dtype mode) {
  constexpr double most_operations = 2e8;
  std::vector<Case> cases;
  for (const CaseText& text : op.spec().cases) {
    cases.emplace_back(op, text, mode);
    if (cases.back().flops() > most_operations) continue;
    for (const Scalar& scalar : op.spec().scalars) {
      if ((" " + text).find(" " + scalar.name + "=") != std::string::npos) continue;
      for (size_t i = 1; i < scalar.values.size(); ++i) {
        try {
          cases.emplace_back(op, fmt::format("{} {}={}", text, scalar.name, scalar.values[i]), mode);
        } catch (const Error&) {
          // These shapes do not go with the value.
        }
      }
    }
  }
  return cases;
}

CaseText bench_case(const OpBase& op) {
  CaseText text;
  for (const Dim& dim : op.spec().dims)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", dim.letter, dim.bench_default);
  return text;
}

}  // namespace tang
