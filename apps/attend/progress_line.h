#pragma once

#include "attend/train/observer.h"

namespace attend::app {

/// Progress on standard error: on a terminal one line that is rewritten, elsewhere a plain line
/// for each evaluation.
class ProgressLine : public train::Observer {
 public:
  explicit ProgressLine(int64_t steps);

  void on_progress(const train::Progress& progress) override;
  void on_evaluation(int64_t step, const train::Evaluation& evaluation) override;

 private:
  int64_t steps_;
  bool terminal_;
  train::Progress last_;
};

}  // namespace attend::app
