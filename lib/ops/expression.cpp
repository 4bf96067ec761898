#include "lib/ops/expression.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "lib/base/error.h"

namespace tang {

void Bindings::set(std::string_view name, double value) {
  for (auto& [known, current] : items_) {
    if (known == name) {
      current = value;
      return;
    }
  }
  items_.emplace_back(name, value);
}

const double* Bindings::find(std::string_view name) const {
  for (const auto& [known, value] : items_) {
    if (known == name) return &value;
  }
  return nullptr;
}

double Bindings::number(std::string_view name) const {
  const double* value = find(name);
  if (value == nullptr) fail_input("'{}' has no value here", name);
  return *value;
}

int64_t Bindings::operator[](std::string_view name) const { return static_cast<int64_t>(number(name)); }

namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Recursive descent over one expression.
class Parser {
 public:
  Parser(std::string_view text, const Bindings& values) : whole_(text), rest_(text), values_(values) {}

  double parse() {
    const double value = comparison();
    skip_spaces();
    if (!rest_.empty()) fail("unexpected text");
    return value;
  }

 private:
  [[noreturn]] void fail(std::string_view why) const {
    fail_input("expression '{}': {} at column {}", whole_, why, whole_.size() - rest_.size() + 1);
  }

  void skip_spaces() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }

  bool take(std::string_view token) {
    skip_spaces();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  double comparison() {
    const double left = sum();
    if (take("==")) return left == sum();
    if (take("!=")) return left != sum();
    if (take("<=")) return left <= sum();
    if (take(">=")) return left >= sum();
    if (take("<")) return left < sum();
    if (take(">")) return left > sum();
    return left;
  }

  double sum() {
    double value = product();
    for (;;) {
      if (take("+")) {
        value += product();
      } else if (take("-")) {
        value -= product();
      } else {
        return value;
      }
    }
  }

  double product() {
    double value = atom();
    for (;;) {
      if (take("*")) {
        value *= atom();
      } else if (take("/")) {
        value /= atom();
      } else if (take("%")) {
        const double divisor = atom();
        if (divisor == 0) fail("remainder by zero");
        value = std::fmod(value, divisor);
      } else {
        return value;
      }
    }
  }

  double atom() {
    if (take("(")) {
      const double value = comparison();
      if (!take(")")) fail("expected ')'");
      return value;
    }
    skip_spaces();
    if (rest_.empty()) fail("expected a number or a name");
    if (starts_name(rest_.front())) {
      size_t length = 1;
      while (length < rest_.size() && continues_name(rest_[length])) ++length;
      const std::string_view name = rest_.substr(0, length);
      const double* value = values_.find(name);
      if (value == nullptr) fail("unknown name");
      rest_.remove_prefix(length);
      return *value;
    }
    double value = 0;
    const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (code != std::errc{}) fail("expected a number or a name");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  std::string_view whole_, rest_;
  const Bindings& values_;
};

}  // namespace

double evaluate(std::string_view expression, const Bindings& values) {
  return Parser(expression, values).parse();
}

bool bound(std::string_view expression, const Bindings& values) {
  for (size_t i = 0; i < expression.size();) {
    if (!starts_name(expression[i])) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < expression.size() && continues_name(expression[end])) ++end;
    if (values.find(expression.substr(i, end - i)) == nullptr) return false;
    i = end;
  }
  return true;
}

}  // namespace tang
