// A case of an op made concrete on the host: the words of a registration turned into shapes, dtypes and
// values. instance.h puts it on a device. Checks and benches share both.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/ops/op.h"

namespace tang {

/// One operand of a case. Absent optional operands stay in the list with present = false.
struct OperandPlan {
  const Operand* operand = nullptr;
  bool present = true;
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> dims;   // outermost first, reversed where the case transposes it
  std::string fill;            // kind: see Fill in op.h
  double limit = 0;            // of ids drawn by "below"
  bool reads = false;          // its content before the call counts
  bool writes = false;         // its content after the call counts
  bool explicit_fill = false;  // the registration or the case named it

  int64_t size() const;
};

/// Elements of a row where rows may lie apart: all heads of [B, T, H, D], else the last dimension.
int64_t row_width(const OperandPlan& plan);

/// Values of every operand that is read, rounded to its dtype, packed; empty for the others.
using CaseInputs = std::vector<std::vector<double>>;

class Case {
 public:
  /// An input error when the words name something the op does not have, a dimension is missing, or the op
  /// itself refuses the shapes.
  Case(const OpBase& op, const CaseText& text, Dtype mode);

  const OpBase& op() const { return *op_; }
  const CaseText& text() const { return text_; }
  Dtype mode() const { return mode_; }
  bool strided() const { return strided_; }
  /// Elements from one row of the operand to the next, where the words say so ("x@9728"); 0: packed.
  int64_t row_stride(const std::string& operand) const;
  const Bindings& values() const { return values_; }  // dims and scalars, as the op binds them
  const std::vector<OperandPlan>& operands() const { return operands_; }
  const OperandPlan* find(std::string_view name) const;
  double flops() const { return evaluate(op_->spec().flops, values_); }
  /// Bytes that one run must move: the registered expression, else every operand once per direction.
  double bytes() const;

  /// Arguments with scalars and packed shapes set; every pointer is `memory`, scratch included.
  std::shared_ptr<void> make_args(void* memory) const;

  /// Elements [0, count) of an operand by its fill: a pure function of op, text, operand and mode.
  std::vector<double> draw(size_t index, int64_t count) const;

  /// All inputs. Those that the forward of a gradient writes under the same name (rstd, lse, o) come from its
  /// reference, unless the registration names their fill.
  CaseInputs draw_inputs() const;

  /// What a reference starts from.
  Ref make_ref(const CaseInputs& inputs) const;

 private:
  void parse(Bindings& given);
  void plan_operands(const Bindings& given);
  void check_row_strides() const;

  const OpBase* op_;
  CaseText text_;
  Dtype mode_;
  bool strided_ = false;
  std::vector<std::string> absent_, taken_in_;
  std::map<std::string, Dtype> dtypes_;
  std::map<std::string, std::string> fills_;
  std::map<std::string, int64_t> row_strides_;
  Bindings values_;
  std::vector<OperandPlan> operands_;
};

/// The case of `op`'s forward whose backward `backward` is: same dims and scalars, and no optional operand
/// that the two do not share. Nothing when the forward has a dimension that the backward lacks.
std::optional<Case> forward_case(const Case& backward);

/// The forward operand whose gradient `gradient` is ("dx" and "d_x" are x's), or "".
std::string gradient_target(const OpBase& forward, std::string_view gradient);

/// Whether the op stores anything in its mode's dtype; one that does not is checked in one mode only.
bool has_modes(const OpBase& op);

/// `value` rounded to what `dtype` stores.
double rounded(double value, Dtype dtype);

}  // namespace tang
