#include "stop_signal.h"

#include <array>
#include <csignal>

namespace attend::app {
namespace {

constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};

volatile std::sig_atomic_t g_received = 0;

void set_handlers(void (*handler)(int)) {
  for (const int signal : kSignals) std::signal(signal, handler);
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
