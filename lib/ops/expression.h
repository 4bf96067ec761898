// Arithmetic over named values, as written in op registrations: "B*H*T", "H % Hkv == 0", "4*B*H*T*T*D/2".
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tang {

/// Dimension letters and scalars by name. Whole numbers are exact up to 2^53.
class Bindings {
 public:
  void set(std::string_view name, double value);
  const double* find(std::string_view name) const;
  /// The value as a whole number; an input error when `name` is unknown.
  int64_t operator[](std::string_view name) const;
  double number(std::string_view name) const;
  const std::vector<std::pair<std::string, double>>& items() const { return items_; }

 private:
  std::vector<std::pair<std::string, double>> items_;
};

/// Precedence: comparisons (== != <= >= < >, giving 1 or 0), then + -, then * / % (remainder), then
/// parentheses. An unknown name or a syntax error is an input error that quotes the expression.
double evaluate(std::string_view expression, const Bindings& values);

/// True when every name in the expression is bound.
bool bound(std::string_view expression, const Bindings& values);

}  // namespace tang
