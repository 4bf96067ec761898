// SIGINT and SIGTERM as a request: the trainer finishes the step, saves, and leaves with 128 + signal. Any
// number of further signals changes nothing.
#pragma once

namespace tang {

/// Catches both signals while it lives.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The first signal received, or 0.
  int signal() const;
};

}  // namespace tang
