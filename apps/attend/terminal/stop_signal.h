#pragma once

#include <exception>

namespace attend::app {

/// Handles SIGHUP, SIGINT and SIGTERM during its lifetime: the first signal requests a stop after
/// the current step, the second signal ends the process. Ignored signals stay ignored. At most one
/// instance may exist.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal received, or 0.
  static int received();
};

/// Thrown by a command that a signal stopped. The exit status is then 128 plus the signal number.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal) : signal_(signal) {}
  int signal() const { return signal_; }
  const char* what() const noexcept override { return "interrupted by a signal"; }

 private:
  int signal_;
};

}  // namespace attend::app
