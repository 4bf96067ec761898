// The one exception type. Its kind is the process's exit code; its message says what was expected,
// what was found and what to try. run_main.h catches it; nothing else does, except tests and sweeps.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace tang {

enum class ErrorKind {
  check = 1,    // a check failed, or training had to stop
  input = 2,    // bad input, flag or configuration
  machine = 3,  // this machine cannot: no GPU, driver too old, out of memory
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

template <class... T>
[[noreturn]] void fail_input(fmt::format_string<T...> message, T&&... values) {
  throw Error(ErrorKind::input, fmt::format(message, std::forward<T>(values)...));
}

template <class... T>
[[noreturn]] void fail_check(fmt::format_string<T...> message, T&&... values) {
  throw Error(ErrorKind::check, fmt::format(message, std::forward<T>(values)...));
}

template <class... T>
[[noreturn]] void fail_machine(fmt::format_string<T...> message, T&&... values) {
  throw Error(ErrorKind::machine, fmt::format(message, std::forward<T>(values)...));
}

}  // namespace tang
