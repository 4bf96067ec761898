#include "lib/check/grad.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/check/devices.h"
#include "lib/ops/case.h"

namespace tang {

namespace {

constexpr double most_operations = 2e7;  // the forward's reference runs four times per input

/// One case of one backward op, in f64 throughout.
class GradientCase {
 public:
  explicit GradientCase(const Case& backward)
      : backward_(backward),
        forward_op_(*backward.op().spec().gradient_of),
        own_(&backward.op() == &forward_op_) {}

  /// Worst disagreement as a fraction of its tolerance; -1 when the case does not describe a forward.
  double run(std::string& worst_input) {
    std::optional<Case> forward = own_ ? std::optional<Case>(backward_) : forward_case(backward_);
    if (!forward) return -1;
    forward_ = &*forward;
    inputs_ = forward->draw_inputs();
    Ref at_inputs = evaluate_at(inputs_);
    choose_upstream(at_inputs);
    Ref gradient = backward_.make_ref(backward_inputs(at_inputs));
    backward_.op().spec().reference(gradient);
    double worst = -1;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const OperandPlan& plan = forward->operands()[i];
      if (!plan.present || plan.operand->role != Role::in || plan.dtype == Dtype::u32) continue;
      const RefOutput* analytic = gradient_of(gradient, plan.operand->name);
      if (analytic == nullptr) continue;
      const double fraction = compare_slope(i, analytic->value);
      if (fraction > worst) worst = fraction, worst_input = plan.operand->name;
    }
    return worst;
  }

 private:
  Ref evaluate_at(const CaseInputs& inputs) const {
    Ref ref = forward_->make_ref(inputs);
    forward_op_.spec().reference(ref);
    return ref;
  }

  /// The backward's input that is the gradient of the forward's `output`.
  const OperandPlan* upstream_of(const std::string& output) const {
    for (const OperandPlan& plan : backward_.operands()) {
      if (plan.present && plan.operand->role == Role::in &&
          gradient_target(forward_op_, plan.operand->name) == output)
        return &plan;
    }
    return nullptr;
  }

  /// An op that is its own gradient has no upstream operand: it is 1 for every output that is not a gradient,
  /// times the operand `scale` where the op has one.
  void choose_upstream(const Ref& at_inputs) {
    for (const auto& [name, output] : at_inputs.outputs()) {
      const OperandPlan* plan = upstream_of(name);
      if (own_ && gradient_target(forward_op_, name).empty()) {
        upstream_[name].assign(output.value.size(), backward_.find("scale") ? own_scale() : 1.0);
      } else if (plan != nullptr) {
        upstream_[name] =
            backward_.draw(static_cast<size_t>(plan - backward_.operands().data()), plan->size());
      }
    }
  }

  double own_scale() const {
    return inputs_[static_cast<size_t>(backward_.find("scale") - backward_.operands().data())].at(0);
  }

  CaseInputs backward_inputs(const Ref& at_inputs) const {
    if (own_) return inputs_;
    CaseInputs result(backward_.operands().size());
    for (size_t i = 0; i < result.size(); ++i) {
      const OperandPlan& plan = backward_.operands()[i];
      if (!plan.present || !plan.reads) continue;
      const std::string& name = plan.operand->name;
      const auto upstream = upstream_.find(gradient_target(forward_op_, name));
      if (upstream != upstream_.end()) {
        result[i] = upstream->second;
      } else if (const OperandPlan* shared = forward_->find(name); shared != nullptr && shared->writes) {
        result[i] = at_inputs.out(name).value;
      } else if (shared != nullptr) {
        result[i] = inputs_[static_cast<size_t>(shared - forward_->operands().data())];
      } else {  // an upstream that this forward does not have (an optional branch)
        result[i].assign(static_cast<size_t>(plan.size()), 0.0);
      }
    }
    return result;
  }

  const RefOutput* gradient_of(const Ref& gradient, const std::string& input) const {
    for (const auto& [name, output] : gradient.outputs()) {
      if (gradient_target(forward_op_, name) == input) return &output;
    }
    return nullptr;
  }

  /// L at inputs moved by `step` along `direction` of operand `index`, and the size of its terms.
  double loss_at(size_t index, const std::vector<double>& direction, double step) {
    CaseInputs moved = inputs_;
    for (size_t k = 0; k < direction.size(); ++k) moved[index][k] += step * direction[k];
    const Ref ref = evaluate_at(moved);
    double loss = 0;
    terms_ = 0;
    for (const auto& [name, upstream] : upstream_) {
      const std::vector<double>& value = ref.out(name).value;
      for (size_t k = 0; k < value.size(); ++k) {
        loss += upstream[k] * value[k];
        terms_ += std::abs(upstream[k] * value[k]);
      }
    }
    return loss;
  }

  double compare_slope(size_t index, const std::vector<double>& analytic) {
    const Rng rng(0x9e3779b9, index);
    std::vector<double> direction(analytic.size());
    double expected = 0, squares = 0;
    for (size_t k = 0; k < direction.size(); ++k) {
      direction[k] = rng.normal(k);
      expected += analytic[k] * direction[k];
      squares += analytic[k] * direction[k] * analytic[k] * direction[k];
    }
    constexpr double h = 1e-3;
    const double near = loss_at(index, direction, h) - loss_at(index, direction, -h);
    const double far = loss_at(index, direction, 2 * h) - loss_at(index, direction, -2 * h);
    const double measured = (8 * near - far) / (12 * h);
    // The fifth derivative is not known: allow 1e-6 of the slope's own terms, and the rounding of L over h.
    const double allowed = 1e-6 * (std::sqrt(squares) + std::abs(expected)) + 4 * 0x1p-52 * terms_ / h;
    return std::abs(measured - expected) / std::max(allowed, 1e-300);
  }

  const Case& backward_;
  const OpBase& forward_op_;
  bool own_;
  const Case* forward_ = nullptr;
  CaseInputs inputs_;
  std::map<std::string, std::vector<double>> upstream_;
  double terms_ = 0;
};

/// The cases that are cheap enough, or the cheapest one.
std::vector<Case> gradient_cases(const OpBase& op) {
  std::vector<Case> all, cheap;
  for (const CaseText& text : op.spec().cases) all.emplace_back(op, text, Dtype::f32);
  std::copy_if(all.begin(), all.end(), std::back_inserter(cheap),
               [](const Case& plan) { return plan.flops() <= most_operations && !plan.strided(); });
  if (cheap.empty() && !all.empty()) {
    cheap.push_back(*std::min_element(all.begin(), all.end(),
                                      [](const Case& a, const Case& b) { return a.flops() < b.flops(); }));
  }
  return cheap;
}

}  // namespace

Counts check_gradient(const OpBase& op) {
  Counts counts;
  double worst = 0;
  for (const Case& plan : gradient_cases(op)) {
    std::string input, failure;
    double fraction = 0;
    try {
      fraction = GradientCase(plan).run(input);
      if (fraction < 0) {  // the case asks for no gradient
        ++counts.skipped;
        continue;
      }
      if (fraction > 1 || std::isnan(fraction))
        failure = fmt::format("the gradient of {} is off by {:.3g} times its tolerance", input, fraction);
    } catch (const std::exception& error) {
      failure = error.what();
    }
    worst = std::max(worst, fraction);
    failure.empty() ? ++counts.passed : ++counts.failed;
    if (!failure.empty()) fmt::print("  FAILED {} {}: {}\n", op.name(), plan.text(), failure);
  }
  if (counts.passed + counts.failed == 0) {
    fmt::print("  FAILED {}: no case has a gradient that its forward names\n", op.name());
    ++counts.failed;
  }
  fmt::print("{:<22} of {:<22} {:>4} cases {:>10.2e} of tolerance  {}\n", op.name(),
             op.spec().gradient_of->name(), counts.passed + counts.failed, worst,
             counts.failed == 0 ? "ok" : "FAILED");
  std::fflush(stdout);
  return counts;
}

Counts check_gradients(const std::vector<std::string>& ops) {
  Counts total;
  for (const OpBase* op : select_ops(ops)) {
    if (op->spec().gradient_of != nullptr) total += check_gradient(*op);
  }
  return total;
}

}  // namespace tang
