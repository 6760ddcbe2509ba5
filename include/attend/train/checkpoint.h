#pragma once

#include "attend/train/evaluation.h"

#include <torch/types.h>

#include <map>
#include <optional>
#include <string>

namespace attend::train {

/// How far a run has come.
struct TrainerState {
  int64_t step = 0;               ///< steps done
  int64_t tokens = 0;             ///< read by the model in them, padding included
  int64_t skipped_steps = 0;      ///< steps left out since loss or gradient was not finite
  double training_seconds = 0.0;  ///< of the steps
  double evaluation_seconds = 0.0;
  double train_loss = 0.0;               ///< of the last step, nats a target
  std::optional<Evaluation> last;        ///< the latest evaluation
  std::optional<Evaluation> best;        ///< that of the lowest loss
  int64_t best_step = 0;                 ///< after how many steps that was
  int64_t evaluations_without_gain = 0;  ///< since then

  double seconds() const { return training_seconds + evaluation_seconds; }
};

/// All that a run needs to go on as if it had never been interrupted.
struct Checkpoint {
  TrainerState trainer_state;
  std::map<std::string, torch::Tensor> weights;  ///< parameters and buffers of the model
  std::map<std::string, torch::Tensor> state;    ///< of optimizer, generators and data
  std::map<std::string, torch::Tensor> best;     ///< weights of the lowest loss so far, if any
};

}  // namespace attend::train
