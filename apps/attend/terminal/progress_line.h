#pragma once

#include "attend/train/observer.h"

namespace attend::app {

/// Prints progress to standard error. If standard error is a terminal, prints a progress bar, which
/// is rewritten in place, and a line above the bar for each evaluation. Otherwise, prints a line
/// for each evaluation, and a line for a training step if nothing was printed for 30 seconds.
class ProgressLine : public train::Observer {
 public:
  explicit ProgressLine(int64_t max_steps);
  /// Moves the cursor below the progress bar.
  ~ProgressLine() override;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void on_progress(const train::Progress& progress) override;
  void on_evaluation(int64_t step, const train::Evaluation& evaluation) override;
  void on_finish() override;

 private:
  void draw();
  void print_line(const std::string& text);

  int64_t max_steps_;
  bool terminal_;
  bool colors_;
  bool drawn_ = false;  // the cursor is at the end of the progress bar
  train::Progress last_;
  double printed_at_ = 0.0;  // `Progress::seconds` at the last printed line
};

}  // namespace attend::app
