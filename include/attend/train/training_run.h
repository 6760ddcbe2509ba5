#pragma once

#include "attend/api.h"
#include "attend/train/objective.h"
#include "attend/train/run_directory.h"
#include "attend/train/trainer.h"

#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attend::train {

/// Options of a `TrainingRun`.
struct TrainingRunOptions {
  /// Values that describe module and data, for example {"num_layers", "4"}; saved in recipe.toml. A
  /// run is resumed only with the same values.
  std::map<std::string, std::string> values = {};
  Schedule schedule = {};  ///< learning rate of each step; by default `lr_at` with the config
  /// Any optimizer of LibTorch for the objective's module; by default `make_optimizer` with the
  /// config. See `Trainer::Trainer`. A run is resumed only with an optimizer of the same type.
  std::shared_ptr<torch::optim::Optimizer> optimizer = nullptr;
  /// The processes that train together; see `Trainer`. Each of them makes the same `TrainingRun`.
  /// Only rank 0 reads and writes the run directory.
  std::shared_ptr<Processes> processes = single_process();
};

/// A `Trainer` with a run directory: saves configuration, metrics, TensorBoard events, checkpoints,
/// the best weights and a summary, and resumes from the latest checkpoint after a crash or a kill.
/// Works with any `Objective`; `RecipeRun` is for the models of this library. The directory is
/// locked against other processes as long as the TrainingRun exists.
///
///     auto run = TrainingRun::begin_or_resume("runs/vit", objective, config);
///     run.finish(run.train());
///
/// A program with these two lines can be killed and started again at any time: it resumes an
/// unfinished run, and loads the best weights of a finished run.
class ATTEND_API TrainingRun {
 public:
  /// Creates the run directory. With `overwrite`, an existing run in the directory is replaced: see
  /// `RunDirectory::create`. Moves the module to `config.device`. Throws InputError in the same
  /// cases as `RunDirectory::create`, for a device that is not available, and for a value of
  /// `config` that is out of range.
  static TrainingRun begin(const std::filesystem::path& directory,
                           std::shared_ptr<Objective> objective, const TrainingConfig& config,
                           const TrainingRunOptions& options = {}, bool overwrite = false);
  /// Continues a run from its latest checkpoint, or from the start if it has none. The values of
  /// `config`, except `optimizer` and `seed`, may differ from those of the run. Throws InputError
  /// for a value of `config` that is out of range, for a device that is not available, and in the
  /// same cases as `RunDirectory::resume`. Also throws InputError if the run is finished, or if
  /// its latest checkpoint is from a step after `config.max_steps`. The message then says what to
  /// change.
  static TrainingRun resume(const std::filesystem::path& directory,
                            std::shared_ptr<Objective> objective, const TrainingConfig& config,
                            const TrainingRunOptions& options = {});
  /// Begins a run in `directory`, or resumes the existing run. Throws InputError in the same cases
  /// as `begin` and `resume`, except that a finished run is not an error: `train` then returns its
  /// result at once.
  static TrainingRun begin_or_resume(const std::filesystem::path& directory,
                                     std::shared_ptr<Objective> objective,
                                     const TrainingConfig& config,
                                     const TrainingRunOptions& options = {});

  /// Trains, and writes logs, checkpoints and best weights to the run directory. LibTorch's number
  /// of threads is changed only during the call. `observers` are called on the calling thread, in
  /// rank 0 only.
  /// `stop_requested` is called after each step and stops training if it returns true. After a
  /// requested stop, call `train` again to continue. `stop_evaluation` is called between the
  /// batches of an evaluation, see `TrainerHooks`. Returns at once if `is_finished()`. Throws in
  /// the same cases as `Trainer::run`, and std::runtime_error if the run directory was removed,
  /// moved or replaced.
  TrainResult train(const std::vector<Observer*>& observers = {},
                    const std::function<bool()>& stop_requested = {},
                    const std::function<bool()>& stop_evaluation = {});

  /// Loads the best weights into the module, sets eval mode, moves the module to the CPU, calls
  /// `write_results`, writes the summary, and deletes the run that `begin` overwrote, if there is
  /// one. Of several processes, rank 0 does this, and all get the weights. If evaluations during
  /// training used a part of the validation data
  /// (`TrainingConfig::eval_batches`), first evaluates the best weights on all of it. Returns
  /// `result` with this evaluation as the best, and calls `on_batch` during it. Do not call
  /// `finish` after a requested stop (`StopReason::stop_requested`).
  ///
  ///     auto run = TrainingRun::begin_or_resume("runs/vit", objective, config);
  ///     run.finish(run.train(), [&] {
  ///       save_safetensors("vit.safetensors", {state_dict(objective->module()), {}});
  ///     });
  TrainResult finish(const TrainResult& result, const std::function<void()>& write_results = {},
                     const BatchCallback& on_batch = {}) {
    return finish("", result, write_results, on_batch);
  }

  /// The run directory. Throws c10::ValueError in processes other than rank 0.
  const RunDirectory& directory() const;
  /// The training configuration.
  const TrainingConfig& config() const { return config_; }
  /// The device of the module.
  torch::Device device() const { return device_; }
  /// True if the run existed, also if it had no checkpoint from which training continues.
  bool is_resumed() const { return is_resumed_; }
  /// The state from which training continues; step 0 for a new run.
  const TrainerState& resumed_state() const { return resumed_state_; }
  /// Messages about damaged checkpoints that were skipped.
  const std::vector<std::string>& damaged() const { return damaged_; }
  /// True if the run was already finished when it was opened, so that nothing is left to train.
  bool is_finished() const { return is_finished_; }

 private:
  friend class RecipeRun;  // makes the content of the run directory, and names its task

  /// `directory`: empty in processes other than rank 0.
  TrainingRun(std::optional<RunDirectory> directory, std::shared_ptr<Objective> objective,
              const TrainingConfig& config, const TrainingRunOptions& options);

  /// `begin`, `resume` and `begin_or_resume` with the content of the run directory.
  static TrainingRun begin(const std::filesystem::path& directory, const RunContent& content,
                           std::shared_ptr<Objective> objective, const TrainingConfig& config,
                           const TrainingRunOptions& options, bool overwrite);
  static TrainingRun open(const std::filesystem::path& directory, const RunContent& content,
                          std::shared_ptr<Objective> objective, const TrainingConfig& config,
                          const TrainingRunOptions& options);
  TrainResult finish(const std::string& task, const TrainResult& result,
                     const std::function<void()>& write_results, const BatchCallback& on_batch);
  /// Restores the latest checkpoint, if there is one. Throws InputError if there is none and the
  /// initial weights of the run were not random.
  void restore_checkpoint();
  /// Saves a checkpoint of the current step.
  void save_checkpoint() const;
  /// Throws InputError if the run is finished; the message says what to change.
  void check_is_unfinished() const;
  /// Evaluates the module on all validation data.
  Evaluation evaluate(const BatchCallback& on_batch);

  std::optional<RunDirectory> directory_;
  std::shared_ptr<Objective> objective_;
  TrainingConfig config_;
  std::shared_ptr<Processes> processes_;
  torch::Device device_;
  std::unique_ptr<Trainer> trainer_;
  TrainerState resumed_state_;
  std::vector<std::string> damaged_;
  bool is_resumed_ = false;
  bool is_finished_ = false;
};

}  // namespace attend::train
