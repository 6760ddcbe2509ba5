#pragma once

#include "attend/train/checkpoint.h"
#include "attend/train/model.h"
#include "attend/train/observer.h"
#include "attend/train/optimizer.h"
#include "attend/train/sampler.h"
#include "attend/train/schedule.h"
#include "attend/train/task.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace attend::train {

/// Where a run keeps what must not be lost.
class CheckpointSink {
 public:
  virtual ~CheckpointSink() = default;
  /// Hears the weights of each evaluation of a new lowest loss. A resumed run calls it first with
  /// those of its snapshot, because what was kept may be of later steps.
  virtual void save_best(const std::map<std::string, torch::Tensor>& weights) = 0;
  /// Hears how to go on from here.
  virtual void save(const Checkpoint& checkpoint) = 0;
  /// Where the latest snapshot is, for people; empty if there is none.
  virtual std::string latest_path() const = 0;
};

/// Why training ended.
enum class StopReason { max_steps, patience, stop_requested };

/// What a run reached.
struct TrainResult {
  TrainerState state;
  StopReason stop_reason = StopReason::max_steps;
  double tokens_per_second = 0.0;  ///< over all steps, evaluations excluded
};

/// The surroundings of a run; all are optional.
struct TrainerHooks {
  std::vector<Observer*> observers = {};
  CheckpointSink* checkpoint_sink = nullptr;
  std::function<bool()> stop_requested = {};  ///< asked after each step
};

/// Trains a model on a task: each step draws `accumulate` batches, goes down the gradient of the
/// mean loss over all their targets, and reports, evaluates and keeps checkpoints in the intervals
/// of the config. The same seed, thread count and machine give the same weights, bit for bit,
/// however often the run was interrupted and restored; LibTorch's global generators, which dropout
/// draws from, are seeded. The model stays on the device that it is on.
///
///     Trainer trainer(model, *task, recipe.training);
///     auto outcome = trainer.run({.observers = {&progress_line}});
class Trainer {
 public:
  /// Without a schedule, the config's: learning_rate() (schedule.h). The task has to outlive it.
  Trainer(Model model, const Task& task, const TrainingConfig& config, Schedule schedule = {});

  /// Goes on from where it stands until a step of the config is the last one, patience is at its
  /// end, or a stop is requested. Throws std::runtime_error, naming step, learning rate and the
  /// latest snapshot, if the loss or its gradient is not finite and the config says to stop, or
  /// the weights are not finite either; and if it ends without an evaluation that is.
  TrainResult run(const TrainerHooks& hooks = {});

  Checkpoint snapshot() const;
  /// Throws InputError, naming what differs, unless it is of the same model and optimizer.
  void restore(const Checkpoint& checkpoint);

 private:
  bool evaluates() const;
  bool reports() const;
  void step(const TrainerHooks& hooks);
  void accumulate_gradients();
  [[noreturn]] void stop_at_nonfinite(const TrainerHooks& hooks, bool spoilt) const;
  void report(const TrainerHooks& hooks);
  void evaluate(const TrainerHooks& hooks);
  void keep(const TrainerHooks& hooks) const;
  bool out_of_patience() const;

  Model model_;
  const Task& task_;
  TrainingConfig config_;
  Schedule schedule_;
  std::vector<torch::Tensor> parameters_;
  torch::Device device_;
  std::unique_ptr<Optimizer> optimizer_;
  Sampler sampler_;
  TrainerState state_;
  std::map<std::string, torch::Tensor> best_weights_;  // on the CPU
  Progress progress_;
  double reported_seconds_ = 0.0;  // of training, at the last report
  int64_t reported_tokens_ = 0;
};

}  // namespace attend::train
