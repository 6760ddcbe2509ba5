#pragma once

#include "attend/train/background.h"

#include <cstdint>
#include <memory>
#include <string>

namespace attend::app {

/// Name of the step that reads and encodes the data of a task.
inline constexpr const char* kPreparingData = "preparing the data";

/// Shows a step of the command that may take long: prints its name and duration to standard error,
/// such as "evaluating: 3 s, 12/50 batches". If standard error is a terminal, the line appears
/// after 2 seconds, is rewritten every second, and is erased at the end of the step. Otherwise, a
/// line is printed after 10 seconds and then every 30 seconds.
class Activity {
 public:
  /// Starts the step. `unit`: unit of the counts of `show`, such as batches.
  explicit Activity(std::string name, std::string unit = "");
  /// Ends the step. Does not wait for a paused terminal.
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  /// Calls `show` of the step that began last, if it has not ended, with another unit.
  static void show_in_last(int64_t done, int64_t count, const std::string& unit);
  /// Sets the numbers that the line contains: `done` of `count` parts are done. Prints nothing.
  void show(int64_t done, int64_t count);

 private:
  struct State;

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
  train::BackgroundThread thread_;
};

/// For `train::DataConfig::on_tokenized`: shows how much of a text is tokenized.
inline void show_tokenized(int64_t done, int64_t count) {
  Activity::show_in_last(done >> 20, count >> 20, "MiB");
}

}  // namespace attend::app
