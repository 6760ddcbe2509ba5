#pragma once

#include "attend/train/observer.h"

#include <limits>

namespace attend::app {

/// Prints progress to standard error. On a terminal: a progress bar that is rewritten in place, and
/// a line above it for each evaluation. Otherwise: a plain line for each evaluation, and for a
/// training step if nothing was printed for 30 seconds.
class ProgressLine : public train::Observer {
 public:
  /// `best_loss`: the best validation loss so far, if the run was resumed.
  explicit ProgressLine(int64_t max_steps,
                        double best_loss = std::numeric_limits<double>::infinity());
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
  double best_loss_;
};

}  // namespace attend::app
