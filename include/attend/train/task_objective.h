#pragma once

#include "attend/api.h"
#include "attend/models/model.h"
#include "attend/train/batch.h"
#include "attend/train/evaluation.h"
#include "attend/train/objective.h"
#include "attend/train/processes.h"
#include "attend/train/task.h"
#include "attend/train/training_config.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace attend::train {

/// Trains a model of this library on a task: cross-entropy with `label_smoothing` and the task's
/// `class_weights`, which evaluations ignore, plus
/// `router_aux_loss_coef` times the load-balancing loss of the model's experts. With several
/// processes, this is the loss of the whole batch, of which each process has a part.
///
/// If the model has low-rank adapters (`add_lora`), checkpoints and best weights do not contain the
/// parameters that are frozen when the objective is made: those of the base model.
///
///     Trainer trainer(std::make_shared<TaskObjective>(model, task, config), config);
class ATTEND_API TaskObjective : public Objective {
 public:
  /// `config` sets label smoothing and the coefficient of the load-balancing loss. Throws
  /// InputError if evaluations of the task do not have `config.best_metric`.
  TaskObjective(Model model, std::shared_ptr<const Task> task, const TrainingConfig& config);

  torch::nn::Module& module() override { return module_of(model_); }
  TrainingBatch training_batch(int64_t size, Sampler& sampler) override;
  Evaluation evaluate(const EvaluationOptions& options) override;
  bool saves(const std::string& name) const override { return !base_.contains(name); }
  void set_processes(std::shared_ptr<Processes> processes) override {
    processes_ = std::move(processes);
  }

 private:
  TrainingLoss loss(const Batch& batch);

  Model model_;
  std::set<std::string> base_;  // names of the frozen parameters of a model with adapters
  std::shared_ptr<const Task> task_;
  torch::Tensor class_weights_;  // (C), or undefined
  double label_smoothing_;
  double router_aux_loss_coef_;
  std::shared_ptr<Processes> processes_ = single_process();
  std::vector<Batch> validation_;  // made by the first evaluation
};

/// Returns the logits of a batch: (B, T, V) for a LanguageModel, (B, U, V) for a Seq2Seq, (B, C)
/// for a SequenceClassifier.
ATTEND_API torch::Tensor logits_of(Model& model, const Batch& batch);

/// Counts sequences of a batch. `total` counts the sequences that have an answer. `correct` counts
/// those of them for which every token of the answer equals the argmax of `logits`.
ATTEND_API ExactMatch exact_match(const torch::Tensor& logits, const Batch& batch);

/// Evaluates `model` on batches, in eval mode and without gradients. If `precision` is bf16, the
/// model runs under autocast to bfloat16; if it is fp32, the autocast state is not changed. Answers
/// are predicted with teacher forcing. If all tokens of an answer are predicted correctly, greedy
/// decoding would generate that answer.
///
///     auto evaluation = evaluate(model, task->validation_batches(kEvalBatchSize));
ATTEND_API Evaluation evaluate(Model& model, const std::vector<Batch>& batches,
                               Precision precision = Precision::fp32,
                               const BatchCallback& on_batch = {});

/// Evaluates `model` on all validation data of a task.
ATTEND_API Evaluation evaluate(Model& model, const Task& task,
                               Precision precision = Precision::fp32);

}  // namespace attend::train
