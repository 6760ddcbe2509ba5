#pragma once

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

}  // namespace attend::app
