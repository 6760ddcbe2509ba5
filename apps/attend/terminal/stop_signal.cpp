#include "terminal/stop_signal.h"

#include <array>
#include <csignal>

namespace attend::app {
namespace {

constexpr std::array<int, 3> kSignals{SIGHUP, SIGINT, SIGTERM};

volatile std::sig_atomic_t g_received = 0;

/// Sets the handler of each signal in kSignals, except the signals that the process ignores. For
/// example, a process that nohup started ignores SIGHUP.
void set_handlers(void (*handler)(int)) {
  for (const int signal : kSignals) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

void on_signal(int signal) {
  g_received = signal;
  set_handlers(SIG_DFL);
}

}  // namespace

StopSignal::StopSignal() {
  g_received = 0;
  set_handlers(on_signal);
}

StopSignal::~StopSignal() {
  set_handlers(SIG_DFL);
}

int StopSignal::received() {
  return g_received;
}

}  // namespace attend::app
