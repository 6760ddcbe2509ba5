#pragma once

#include "attend/train/evaluation.h"

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attend::train {

/// Progress of a run, as saved in checkpoints.
struct TrainerState {
  int64_t step = 0;                 ///< steps done
  int64_t tokens = 0;               ///< training tokens so far
  int64_t skipped_steps = 0;        ///< steps skipped because loss or gradient was not finite
  double training_seconds = 0.0;    ///< wall time of the steps
  double evaluation_seconds = 0.0;  ///< wall time of the evaluations
  double train_loss = 0.0;          ///< loss of the last step, mean over the targets
  std::optional<Evaluation> last;   ///< latest evaluation
  std::optional<Evaluation> best;   ///< best evaluation by `TrainingConfig::best_metric`
  int64_t best_step = 0;            ///< step of the best evaluation
  int64_t evaluations_without_improvement = 0;  ///< evaluations since the best one
  bool evaluation_pending = false;              ///< the evaluation after the last step was stopped
  int64_t threads = 0;                          ///< CPU threads used; 0 before the first step

  /// Wall time of steps and evaluations.
  double seconds() const { return training_seconds + evaluation_seconds; }
};

/// Everything that a run needs to resume exactly.
struct Checkpoint {
  TrainerState trainer_state;                    ///< progress so far
  std::map<std::string, torch::Tensor> weights;  ///< parameters and buffers of the module
  std::map<std::string, torch::Tensor> state;    ///< state of optimizer, random number generators,
                                                 ///< sampler and objective; requires_grad of
                                                 ///< each parameter
  std::map<std::string, torch::Tensor> best;     ///< weights of the best evaluation, if any; shared
                                                 ///< with the trainer, which never changes them
  // Set by `CheckpointStore::load_latest`:
  std::filesystem::path path = {};        ///< folder of the checkpoint
  std::vector<std::string> damaged = {};  ///< messages about newer checkpoints that are damaged
};

}  // namespace attend::train
