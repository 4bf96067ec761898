#include "lib/expr/parse.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <map>

#include <fmt/ranges.h>

#include "lib/base/error.h"
#include "lib/base/text.h"

namespace tang {

namespace {

constexpr double pi = 3.14159265358979323846;
constexpr int deepest = 200;  // of brackets and signs: a limit on recursion

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

struct Function {
  size_t arguments;
  std::function<Expr(const std::vector<Expr>&)> build;
};

const std::map<std::string, Function, std::less<>>& functions() {
  static const auto table = [] {
    std::map<std::string, Function, std::less<>> all = {
        {"silu", {1, [](const auto& a) { return silu(a[0]); }}},
        {"gelu", {1, [](const auto& a) { return gelu(a[0]); }}},
        {"gelu_tanh", {1, [](const auto& a) { return gelu_tanh(a[0]); }}},
        {"relu", {1, [](const auto& a) { return relu(a[0]); }}},
        {"relu2", {1, [](const auto& a) { return relu2(a[0]); }}},
    };
    for (const ExprOp op : {ExprOp::abs, ExprOp::min, ExprOp::max, ExprOp::exp, ExprOp::log, ExprOp::sqrt,
                            ExprOp::rsqrt, ExprOp::sin, ExprOp::cos, ExprOp::tanh, ExprOp::sigmoid,
                            ExprOp::erf, ExprOp::pow, ExprOp::select}) {
      const auto count = static_cast<size_t>(operand_count(op));
      all[std::string(name_of(op))] = {count, [op, count](const std::vector<Expr>& a) {
                                         return Expr::make(op, a[0], count > 1 ? a[1] : 0.0,
                                                           count > 2 ? a[2] : 0.0);
                                       }};
    }
    return all;
  }();
  return table;
}

class Parser {
 public:
  Parser(std::string_view text, std::span<const std::string> names) : text_(text), names_(names) {}

  Expr parse() {
    const Expr result = comparison();
    if (peek() != '\0') fail(at_, "expected an operator or the end, found '{}'", peek());
    return result;
  }

 private:
  template <class... T>
  [[noreturn]] void fail(size_t at, fmt::format_string<T...> message, T&&... values) const {
    fail_input("expression '{}', column {}: {}", text_, at + 1,
               fmt::format(message, std::forward<T>(values)...));
  }

  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(std::string_view token) {
    peek();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Expr comparison() {
    const Expr left = sum();
    if (take("<=")) return left <= sum();
    if (take(">=")) return left >= sum();
    if (take("==")) return equal(left, sum());
    if (take("<")) return left < sum();
    if (take(">")) return left > sum();
    return left;
  }

  Expr sum() {
    Expr value = product();
    for (;;) {
      if (take("+")) {
        value = value + product();
      } else if (take("-")) {
        value = value - product();
      } else {
        return value;
      }
    }
  }

  Expr product() {
    Expr value = signed_power();
    for (;;) {
      if (peek() == '*' && text_.substr(at_).starts_with("**")) fail(at_, "a power is written ^, not **");
      if (take("*")) {
        value = value * signed_power();
      } else if (take("/")) {
        value = value / signed_power();
      } else {
        return value;
      }
    }
  }

  /// -x^2 is -(x^2), and 2^-x is fine.
  Expr signed_power() {
    if (++depth_ > deepest) fail(at_, "more than {} brackets and signs inside each other", deepest);
    const auto inside = [this]() -> Expr {
      if (take("-")) return -signed_power();
      if (take("+")) return signed_power();
      const Expr base = atom();
      return take("^") ? pow(base, signed_power()) : base;
    };
    const Expr result = inside();
    --depth_;
    return result;
  }

  Expr atom() {
    const char next = peek();
    if (take("(")) {
      const size_t opened = at_;
      const Expr value = comparison();
      if (!take(")")) fail(at_, "expected ')' for the '(' in column {}", opened);
      return value;
    }
    if (starts_name(next)) return name();
    if (std::isdigit(static_cast<unsigned char>(next)) || next == '.') return number();
    if (next == '\0') fail(at_, "expected a number, a name or '(' before the end");
    fail(at_, "expected a number, a name or '(', found '{}'", next);
  }

  Expr number() {
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (code != std::errc{}) fail(at_, "this is no number");
    if (end < text_.data() + text_.size() && (continues_name(*end) || *end == '.'))
      fail(at_, "a number is followed by '{}'", *end);
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  Expr name() {
    const size_t begin = at_;
    while (at_ < text_.size() && continues_name(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (peek() == '(') return call(word, begin);
    const auto found = std::find(names_.begin(), names_.end(), word);
    if (found != names_.end()) return Expr::input(found - names_.begin());
    if (word == "pi") return pi;
    if (functions().contains(word)) fail(begin, "'{0}' is a function: write {0}(…)", word);
    fail(begin, "unknown name '{}'; known: {}, pi{}", word, fmt::join(names_, ", "), like(word));
  }

  Expr call(std::string_view word, size_t begin) {
    const auto found = functions().find(word);
    if (found == functions().end()) fail(begin, "unknown function '{}'{}", word, like(word));
    take("(");
    std::vector<Expr> arguments;
    do {
      arguments.push_back(comparison());
    } while (take(","));
    if (!take(")")) fail(at_, "expected ',' or ')' after an argument of {}", word);
    if (arguments.size() != found->second.arguments)
      fail(begin, "{} takes {} argument(s), found {}", word, found->second.arguments, arguments.size());
    return found->second.build(arguments);
  }

  static std::string like(std::string_view word) {
    std::vector<std::string> known;
    for (const auto& [name, function] : functions()) known.push_back(name);
    return suggestion(word, known);
  }

  std::string_view text_;
  std::span<const std::string> names_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expr parse_expression(std::string_view text, std::span<const std::string> names) {
  return Parser(text, names).parse();
}

}  // namespace tang
