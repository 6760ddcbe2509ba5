#pragma once

#include "attend/api.h"
#include "attend/train/model.h"
#include "attend/train/objective.h"
#include "attend/train/task.h"
#include "attend/train/training_config.h"

#include <memory>

namespace attend::train {

/// Trains a model of this library on a task: cross-entropy with `label_smoothing`, plus
/// `router_aux_loss_coef` times the load-balancing loss of its experts.
///
///     Trainer trainer(std::make_shared<TaskObjective>(model, task, config), config);
class ATTEND_API TaskObjective : public Objective {
 public:
  /// `config` sets label smoothing and the coefficient of the load-balancing loss.
  TaskObjective(Model model, std::shared_ptr<const Task> task, const TrainingConfig& config);

  torch::nn::Module& module() override { return module_of(model_); }
  TrainingBatch training_batch(int64_t size, Sampler& sampler) override;
  TrainingLoss training_loss(const TrainingBatch& batch) override;
  Evaluation evaluate() override;

 private:
  Model model_;
  std::shared_ptr<const Task> task_;
  double label_smoothing_;
  double router_aux_loss_coef_;
};

}  // namespace attend::train
