#pragma once

#include "attend/api.h"
#include "attend/train/evaluation.h"

#include <cstdint>
#include <optional>

namespace attend::train {

/// Training metrics after a step.
struct Progress {
  int64_t step = 0;                       ///< steps done
  double train_loss = 0.0;                ///< loss of the last step, mean over the targets
  double lr = 0.0;                        ///< learning rate of the last step
  double grad_norm = 0.0;                 ///< gradient norm of the last step, before clipping
  double seconds = 0.0;                   ///< wall time of the run so far, evaluations included
  double tokens_per_second = 0.0;         ///< since the last report, evaluations excluded
  int64_t peak_memory = 0;                ///< peak resident memory of the process, in bytes
  int64_t skipped_steps = 0;              ///< steps skipped because loss or gradient was not finite
  std::optional<double> accuracy = {};    ///< accuracy on the training batches of the last step, in
                                          ///< train mode (with dropout); see `ExactMatch::accuracy`
  std::optional<double> loss_scale = {};  ///< scale of the next step (`GradScaler`), for fp16
  double seconds_left = 0.0;  ///< estimated wall time until `max_steps`, evaluations included
};

/// Base class for callbacks of a `Trainer`. Progress is reported every `log_every` steps and before
/// each evaluation. The trainer itself prints nothing.
class ATTEND_API Observer {
 public:
  virtual ~Observer() = default;
  /// Called with the metrics of a step.
  virtual void on_progress(const Progress& /*progress*/) {}
  /// Called with the validation result after `step` steps.
  virtual void on_evaluation(int64_t /*step*/, const Evaluation& /*evaluation*/) {}
  /// Called after the last report, also after early stopping or a requested stop. Not called if an
  /// exception ends training. Flush buffers here.
  virtual void on_finish() {}
};

}  // namespace attend::train
