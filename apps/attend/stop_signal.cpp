#include "stop_signal.h"

#include <array>
#include <csignal>

namespace attend::app {
namespace {

constexpr std::array<int, 3> kSignals{SIGHUP, SIGINT, SIGTERM};

volatile std::sig_atomic_t g_received = 0;

/// A signal that is ignored, as nohup has it, stays so.
void set_handlers(void (*handler)(int)) {
  for (const int signal : kSignals) {
    if (std::signal(signal, handler) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

void take(int signal) {
  g_received = signal;
  set_handlers(SIG_DFL);
}

}  // namespace

StopSignal::StopSignal() {
  g_received = 0;
  set_handlers(take);
}

StopSignal::~StopSignal() {
  set_handlers(SIG_DFL);
}

int StopSignal::received() {
  return g_received;
}

}  // namespace attend::app
