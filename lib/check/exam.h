// One case of one op: its inputs and reference, computed once, and the judgement of any implementation by it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/check/verdict.h"
#include "lib/ops/instance.h"

namespace tang {

class Exam {
 public:
  /// `plan` is parsed already, so that bad words are refused before any work.
  explicit Exam(Case plan) : plan_(std::move(plan)) {}

  const Case& plan() const { return plan_; }
  /// Draws inputs and runs the f64 reference (and the plain version): slow, thread-safe between exams.
  void compute() { compute(plan_.draw_inputs()); }
  /// The same with these inputs.
  void compute(CaseInputs inputs);
  /// Frees what compute made.
  void forget();
  const CaseInputs& inputs() const { return inputs_; }
  const Ref& reference() const { return *reference_; }
  const Ref* plain() const { return plain_ ? &*plain_ : nullptr; }

 private:
  Case plan_;
  CaseInputs inputs_;
  std::optional<Ref> reference_, plain_;
};

struct Result {
  std::string failure;      // "" when it passed
  std::string unsupported;  // the implementation's own reason; then it did not run
  double worst = 0;         // largest error as a fraction of its tolerance
  std::vector<Instance::Output> outputs;
};

/// Runs `impl` on the exam and judges it: every element against the reference, guard bands and inputs intact,
/// every element written, the same bits on a second run over other garbage, in place, and with padded rows;
/// FA-RULE where the op has a plain version (largest error at most plain_factor times the plain one's, plus
/// one rounding of the largest value).
Result examine(const Exam& exam, Device& device, const Impl& impl);

/// The largest difference of two runs' outputs, as a fraction of the sum of both tolerances.
double distance(const Exam& exam, const Result& a, const Result& b);

/// A registered op's cases: each text as it is, then once more for every further value of each scalar that
/// it does not set (left out where a case costs more than 2e8 operations, or where the op refuses the value).
std::vector<Case> expand_cases(const OpBase& op, Dtype mode);

/// The op at its bench defaults, as a case's text.
CaseText bench_case(const OpBase& op);

}  // namespace tang
