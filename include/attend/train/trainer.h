#pragma once

#include "attend/api.h"
#include "attend/train/checkpoint.h"
#include "attend/train/grad_scaler.h"
#include "attend/train/objective.h"
#include "attend/train/observer.h"
#include "attend/train/optimizer.h"
#include "attend/train/processes.h"
#include "attend/train/sampler.h"
#include "attend/train/schedule.h"
#include "attend/train/training_config.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attend::train {

/// Destination for checkpoints and for the best weights by `TrainingConfig::best_metric`.
class ATTEND_API CheckpointSink {
 public:
  virtual ~CheckpointSink() = default;
  /// Called with the weights whenever the validation metric improves. A resumed run first calls
  /// `save_best` with the best weights of the checkpoint, because the weights saved before the
  /// interruption may be from a later step than the checkpoint.
  virtual void save_best(const std::map<std::string, torch::Tensor>& weights) = 0;
  /// Called with a checkpoint every `checkpoint_every` steps and at the end of training. Not called
  /// while a weight is NaN or infinite.
  virtual void save(const Checkpoint& checkpoint) = 0;
  /// Called after each step; a sink that saves in the background throws here if saving has failed.
  virtual void check() {}
  /// Called at the end of training; returns when everything is saved. Throws if something could not
  /// be saved.
  virtual void finish() {}
  /// Returns the path of the latest checkpoint for error messages; empty if there is none.
  virtual std::string latest_path() const = 0;
};

/// Reason why training stopped.
enum class StopReason {
  max_steps,       ///< the configured number of steps is done
  patience,        ///< early stopping: `patience` evaluations without improvement
  stop_requested,  ///< `TrainerHooks::stop_requested` returned true
};

/// Result of `Trainer::run`.
struct TrainResult {
  TrainerState state;                              ///< state after the last step
  StopReason stop_reason = StopReason::max_steps;  ///< reason why training stopped
  double tokens_per_second = 0.0;                  ///< over all steps, evaluations excluded
};

/// Callbacks of `Trainer::run`; all are optional.
struct TrainerHooks {
  std::vector<Observer*> observers = {};      ///< called with progress and evaluations
  CheckpointSink* checkpoint_sink = nullptr;  ///< called with checkpoints
  std::function<bool()> stop_requested = {};  ///< called after each step; true stops training
  /// Called between the batches of an evaluation. If it returns true, the evaluation ends without a
  /// result, and training stops. The evaluation is repeated when training continues, also after a
  /// resume.
  std::function<bool()> stop_evaluation = {};
};

/// Training loop for any `Objective`: gradient accumulation, clipping by norm, learning rate
/// schedule, mixed precision, evaluation, early stopping, checkpoints and exact resuming.
///
/// On the CPU, with the same seed, thread count, machine and initial weights, training gives
/// bitwise the same weights, even if it is interrupted and resumed. The constructor seeds
/// LibTorch's global generators, which dropout uses. The module stays on its device.
///
/// With `config.threads` = 0 (auto) and a module on the CPU, the first call of `run` measures a few
/// forward and backward passes with different numbers of CPU threads, restores the state of the
/// trainer, and trains with the fastest number. The number is not changed if other processes start
/// to use cores later. Checkpoints contain the number of threads (`TrainerState::threads`), so a
/// resumed run uses the same number, unless fewer threads are available. LibTorch's number of
/// threads is changed only during `run`.
///
/// Losses and evaluations are computed under autocast to bfloat16 if `config.precision` is bf16,
/// and to float16 if it is fp16. If it is fp32, the autocast state is that of the code that calls
/// `run`. With fp16, a `GradScaler` scales the loss. A step with non-finite gradients is then
/// skipped and counted, and the scale is halved, whatever `config.on_nonfinite` is. It applies to a
/// loss that is not finite, and to gradients that are not with a scale of 1 or less.
///
/// During `run`, malloc of glibc keeps freed memory for the next step, unless the environment sets
/// how malloc keeps memory (`GLIBC_TUNABLES`, `MALLOC_...`). This changes settings of the whole
/// process, and replaces those that the program made with mallopt; see docs/performance.md.
///
/// Parameters may be frozen and unfrozen during training, with effect from the next step: with
/// several processes, in all of them, for example in `TrainerHooks::stop_requested`.
///
/// With several `processes`, each trains on its part of every batch; the parts are equally large,
/// or differ by one sample. The weights of all processes stay equal, and follow those that a single
/// process would train, except for rounding errors, dropout and `TrainingLoss::auxiliary`, which is
/// averaged over the processes; see `TaskObjective`. Each step and each evaluation begins with the
/// buffers of rank 0, such as the statistics of batch norms. The processes evaluate together. The
/// state of rank 0 is the one from which all processes start, and only its hooks are called, except
/// `stop_requested` and `stop_evaluation`, which stop all processes if one of them returns true.
/// With `shard_optimizer`, which must be the same in all processes, `run` distributes the state of
/// the optimizer over them (see `ShardedOptimizer`). A single process ignores `shard_optimizer`.
///
///     Trainer trainer(std::make_shared<TaskObjective>(model, task, config), config);
///     const auto result = trainer.run({.observers = {&progress_line}});
class ATTEND_API Trainer {
 public:
  /// `schedule` maps a step, counted from 0, to its learning rate; by default `lr_at` with
  /// `config`. `optimizer` may be any optimizer of LibTorch except LBFGS; by default
  /// `make_optimizer` with `config`. Before each step, the learning rate of all its parameter
  /// groups is set. Module parameters that it does not have are not trained. Throws InputError if a
  /// value of `config` is out of range, or if `config.batch_size` is less than the number of
  /// `processes`. Throws c10::ValueError if the module has no parameters, if the optimizer has
  /// parameters that do not belong to the module or is LBFGS, whose `step()` needs a closure, or if
  /// its state is to be distributed and it is not an `Optimizer`.
  ///
  ///     auto sgd = std::make_shared<torch::optim::SGD>(
  ///         net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  ///     Trainer(objective, config, {}, sgd).run();
  Trainer(std::shared_ptr<Objective> objective, const TrainingConfig& config,
          Schedule schedule = {}, std::shared_ptr<torch::optim::Optimizer> optimizer = nullptr,
          std::shared_ptr<Processes> processes = single_process(), bool shard_optimizer = false);

  /// Trains from the current state until `max_steps`, early stopping, or a requested stop. Throws
  /// c10::ValueError if all parameters are frozen, if the batches of a step have no targets, or if
  /// the loss is not 0-dim or requires no gradient. If the loss or the gradient norm of a step is
  /// not finite, throws std::runtime_error in two cases: `on_nonfinite` is `stop`, or a weight is
  /// not finite. The message contains step, learning rate and latest checkpoint. Also throws
  /// std::runtime_error if training ends without a finite validation loss. Throws InputError if an
  /// evaluation does not have `config.best_metric`.
  TrainResult run(const TrainerHooks& hooks = {});

  /// The progress so far.
  const TrainerState& state() const { return state_; }
  /// Returns everything that `restore` needs, as copies on the CPU; further training does not
  /// change them. In rank 0, before `run` and after it, unless it throws, this includes what only
  /// other processes have: the states of their generators and their parts of the optimizer's state.
  /// So do the checkpoints that `run` passes to `CheckpointSink::save`.
  Checkpoint checkpoint() const;
  /// Restores a checkpoint: the progress, the weights, whether each parameter requires a gradient,
  /// and the states of optimizer, random number generators and objective. `run` then continues from
  /// there. Of several processes, only rank 0 needs the checkpoint: `run` passes it to the others.
  /// A process that the checkpoint does not know keeps the states of its generators. Throws
  /// InputError if the checkpoint belongs to another module or optimizer; the message contains the
  /// differences.
  void restore(const Checkpoint& checkpoint);

 private:
  /// Returns the number of CPU threads to train with. It is the first of these that applies:
  /// - `config.threads` if it is not 0
  /// - `TrainerState::threads` if it is not 0 and not larger than the number of available threads.
  ///   Several processes on a machine divide its cores, unless the environment variable
  ///   OMP_NUM_THREADS is set
  /// - for a module on the CPU, and one process: the fastest number, which is measured
  /// - the number of available threads
  int64_t num_threads();
  /// Trains until the last step, early stopping or a requested stop. Saves checkpoints.
  void train(const TrainerHooks& hooks);
  void step(const TrainerHooks& hooks);
  /// The batches of a step, of this process.
  struct Batches {
    std::vector<TrainingBatch> own;
    int64_t num_targets;  // of all processes
  };
  /// Draws `count` batches for the next step.
  Batches draw(int64_t count);
  /// Computes the gradients of the loss of the batches, averaged over all their targets.
  void forward_backward(const Batches& batches);
  /// Skips a step whose loss or gradients are not finite, or throws.
  void skip_step(const TrainerHooks& hooks, bool scale_is_large);
  void report(const TrainerHooks& hooks);
  /// Evaluates, and updates the state.
  void evaluate(const TrainerHooks& hooks);
  void save(const TrainerHooks& hooks);
  /// Sets `others_`. Called by all processes; the result is that of rank 0.
  void collect_others();
  torch::nn::Module& module() const { return objective_->module(); }
  /// Returns copies of the tensors that `Objective::saves`.
  std::map<std::string, torch::Tensor> saved_weights() const;

  std::shared_ptr<Objective> objective_;
  TrainingConfig config_;
  Schedule schedule_;
  std::vector<torch::Tensor> parameters_;
  torch::Device device_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::shared_ptr<Processes> processes_;
  std::vector<bool> trained_;  // which parameters required a gradient in the last step
  Sampler sampler_;
  std::optional<GradScaler> scaler_;  // for fp16
  TrainerState state_;
  std::map<std::string, torch::Tensor> best_weights_;  // on the CPU
  // What only other processes have, by the names in checkpoints, on the CPU; until the next step.
  std::map<std::string, torch::Tensor> others_;
  Progress progress_;
  double reported_seconds_ = 0.0;  // training seconds at the last report
  int64_t reported_tokens_ = 0;
};

/// Returns the number of processes of the trainers that saved the checkpoint.
ATTEND_API int64_t world_size_of(const Checkpoint& checkpoint);

}  // namespace attend::train
