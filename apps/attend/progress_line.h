#pragma once

#include "attend/train/observer.h"

#include <limits>

namespace attend::app {

/// Progress on standard error. On a terminal: one line with a bar that is rewritten in place, and
/// above it a line for each evaluation. Elsewhere: a plain line for each evaluation, and one every
/// half a minute in between, so that the log of a long run shows life.
class ProgressLine : public train::Observer {
 public:
  /// `best_loss`: the lowest so far of a run that goes on.
  explicit ProgressLine(int64_t steps, double best_loss = std::numeric_limits<double>::infinity());
  /// Leaves what was shown, and the cursor below it.
  ~ProgressLine() override;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void on_progress(const train::Progress& progress) override;
  void on_evaluation(int64_t step, const train::Evaluation& evaluation) override;
  void on_finish() override;

 private:
  void draw();
  void print_line(const std::string& text);

  int64_t steps_;
  bool terminal_;
  bool colours_;
  bool drawn_ = false;  // the cursor stands behind the line that is rewritten
  train::Progress last_;
  double printed_ = 0.0;  // seconds of the run at the last plain line
  double best_loss_;
};

}  // namespace attend::app
