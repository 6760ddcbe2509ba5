#pragma once

#include "attend/train/evaluation.h"

#include <cstdint>
#include <optional>

namespace attend::train {

/// Where a run stands after some steps.
struct Progress {
  int64_t step = 0;                ///< steps done
  double train_loss = 0.0;         ///< of the last step, nats a target
  double lr = 0.0;                 ///< of the last step
  double grad_norm = 0.0;          ///< of the last step, before clipping
  double seconds = 0.0;            ///< of the whole run, evaluations included
  double tokens_per_second = 0.0;  ///< over the steps since the last report, evaluations excluded
  int64_t memory = 0;              ///< bytes: the most that the process has held so far
  int64_t skipped_steps = 0;       ///< steps left out since their loss or gradient was not finite
  std::optional<double> accuracy = {};  ///< of the last step's sequences, as Evaluation has it of
                                        ///< held-out ones; with dropout, if there is any
};

/// Hears what training does: progress every `log_every` steps and before each evaluation. The
/// trainer prints nothing itself.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_progress(const Progress& /*progress*/) {}
  virtual void on_evaluation(int64_t /*step*/, const Evaluation& /*evaluation*/) {}
  /// After the last report, also of a run that was stopped: what is buffered is written now.
  virtual void on_finish() {}
};

}  // namespace attend::train
