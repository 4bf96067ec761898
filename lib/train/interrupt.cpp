#include "lib/train/interrupt.h"

#include <atomic>
#include <csignal>

namespace tang {

namespace {

std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler stores to it

void note(int signal) {
  int none = 0;
  received.compare_exchange_strong(none, signal);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // a save in progress must not see its writes interrupted
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  received = 0;
  handle(SIGINT, note);
  handle(SIGTERM, note);
}

InterruptGuard::~InterruptGuard() {
  handle(SIGINT, SIG_DFL);
  handle(SIGTERM, SIG_DFL);
}

int InterruptGuard::signal() const { return received; }

}  // namespace tang
