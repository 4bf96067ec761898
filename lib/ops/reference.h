// What an op's f64 reference reads and writes. References are plain loops over the formula; they are built
// without contraction or fast-math and share nothing with the implementations they judge.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/dtype.h"
#include "lib/ops/expression.h"

namespace tang {

/// One output in packed logical order. With m = magnitude[i] and u the unit roundoff, an implementation may
/// differ from value[i] by at most
///   u(stored)·(|value| + stored_roundings·(|value| + m)) + 4·u(f32)·sqrt(terms + 4)·m +
///   extra_roundings·u(mode)·m + product_roundoff·m
struct RefOutput {
  std::vector<double> value;
  std::vector<double> magnitude;  // sqrt of the sum of squares of the f64 terms whose sum is the element
  double terms = 1;               // K: the reduction length
  double extra_roundings = 0;     // intermediates that the op stores in the mode's dtype
  int stored_roundings = 0;       // roundings of partial sums to the output's own dtype
  double product_roundoff = 0;    // of a product's inputs, where it is not the dtype's: TF32
};

class Ref {
 public:
  Ref(Bindings values, Dtype mode) : values_(std::move(values)), mode_(mode) {}

  int64_t operator[](std::string_view letter) const { return values_[letter]; }  // a dimension
  double scalar(std::string_view name) const { return values_.number(name); }
  bool flag(std::string_view name) const { return values_.number(name) != 0; }
  Dtype mode() const { return mode_; }  // f32 or bf16: what `data` operands are stored in
  const Bindings& values() const { return values_; }

  /// An operand that was given: an input, or an output that the caller asked for.
  bool has(std::string_view name) const;
  /// An input's elements (already rounded to its dtype); for inout and accumulate the content before the
  /// call.
  const std::vector<double>& in(std::string_view name) const;
  /// An output, sized and zeroed.
  RefOutput& out(std::string_view name);
  const RefOutput& out(std::string_view name) const;

  /// `value` rounded to the mode's dtype: for `plain` versions, which compute in the op's own precision.
  double round(double value) const;

  void add_input(std::string name, std::vector<double> elements) {
    inputs_[std::move(name)] = std::move(elements);
  }
  void add_output(std::string name, int64_t size);
  const std::map<std::string, RefOutput, std::less<>>& outputs() const { return outputs_; }

 private:
  Bindings values_;
  Dtype mode_;
  std::map<std::string, std::vector<double>, std::less<>> inputs_;
  std::map<std::string, RefOutput, std::less<>> outputs_;
};

}  // namespace tang
