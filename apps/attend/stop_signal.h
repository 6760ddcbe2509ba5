#pragma once

namespace attend::app {

/// Turns the first SIGHUP, SIGINT or SIGTERM into a request to stop after the current step; a
/// second one ends the process at once. Those that are ignored stay so. There is one at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The number of the signal that came, or 0.
  static int received();
};

}  // namespace attend::app
