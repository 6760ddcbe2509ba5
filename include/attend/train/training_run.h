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
#include <string>
#include <vector>

namespace attend::train {

/// Options of a `TrainingRun`.
struct TrainingRunOptions {
  /// Values that describe module and data, for example {"layers", "4"}; saved in recipe.toml. A run
  /// is resumed only with the same values.
  std::map<std::string, std::string> values = {};
  Schedule schedule = {};  ///< learning rate of each step; by default `lr_at` with the config
};

/// A `Trainer` with a run directory: saves configuration, metrics, TensorBoard events, checkpoints,
/// the best weights and a summary, and resumes from the latest checkpoint after a crash or a kill.
/// Works with any `Objective`; `RecipeRun` is for the models of this library. Locks the directory
/// against other processes as long as it exists.
///
///     auto run = TrainingRun::begin_or_resume("runs/vit", objective, config);
///     run.finish(run.train());
///
/// This program can be killed and started again at any time: it resumes an unfinished run, and
/// loads the best weights of a finished run.
class ATTEND_API TrainingRun {
 public:
  /// Creates the run directory; `overwrite` replaces a run in it, see `RunDirectory::create`. Moves
  /// the module to `config.device` and sets `config.threads` if it is not auto. Throws InputError
  /// as `RunDirectory::create`, for a device that does not exist, and for a value of `config` that
  /// is out of range.
  static TrainingRun begin(const std::filesystem::path& directory,
                           std::shared_ptr<Objective> objective, const TrainingConfig& config,
                           const TrainingRunOptions& options = {}, bool overwrite = false);
  /// Continues a run from its latest checkpoint, or from the start if it has none. Training values
  /// other than `optimizer` and `seed` may differ. Throws InputError as `begin` and
  /// `RunDirectory::resume`, and, with advice in the message, if the run is finished.
  static TrainingRun resume(const std::filesystem::path& directory,
                            std::shared_ptr<Objective> objective, const TrainingConfig& config,
                            const TrainingRunOptions& options = {});
  /// Begins a run in `directory`, or resumes the existing one. A finished run is not an error:
  /// `train` returns its result at once. Throws InputError as `begin` and `resume`.
  static TrainingRun begin_or_resume(const std::filesystem::path& directory,
                                     std::shared_ptr<Objective> objective,
                                     const TrainingConfig& config,
                                     const TrainingRunOptions& options = {});

  /// Trains, and writes the files. `observers` are called on this thread, `stop_requested` after
  /// each step. After a requested stop, call it again to continue. Returns at once if
  /// `is_finished()`. Throws as `Trainer::run`.
  TrainResult train(const std::vector<Observer*>& observers = {},
                    const std::function<bool()>& stop_requested = {});

  /// Loads the best weights into the module, moves it to the CPU and to eval mode, and writes the
  /// summary; deletes the run that was overwritten. Do not call it after a requested stop
  /// (`StopReason::stop_requested`).
  void finish(const TrainResult& result);

  /// The run directory.
  const RunDirectory& directory() const { return directory_; }
  /// The training configuration.
  const TrainingConfig& config() const { return config_; }
  /// The device of the module.
  torch::Device device() const { return device_; }
  /// The state training continues from; step 0 for a new run.
  const TrainerState& resumed_state() const { return resumed_state_; }
  /// Messages about damaged checkpoints that were skipped.
  const std::vector<std::string>& damaged() const { return damaged_; }
  /// True if the run was finished before: nothing is left to train.
  bool is_finished() const { return is_finished_; }

 private:
  friend class RecipeRun;  // saves further content in the directory

  /// Creates a run in an open directory; the module is already on `device`.
  TrainingRun(RunDirectory directory, std::shared_ptr<Objective> objective,
              const TrainingConfig& config, torch::Device device, Schedule schedule = {});

  /// Opens an existing run, finished or not.
  static TrainingRun open(const std::filesystem::path& directory,
                          std::shared_ptr<Objective> objective, const TrainingConfig& config,
                          const TrainingRunOptions& options);
  /// Restores the latest checkpoint, if there is one, and saves the recipe of an unfinished run.
  void restore_checkpoint(const std::string& recipe);
  /// Loads the best weights into the module, on the CPU and in eval mode.
  void load_best_weights();
  /// Writes the summary; `task` as in `RunDirectory::finish`.
  void write_summary(const std::string& task, const TrainResult& result);
  /// Throws InputError, with advice in the message, if the run is finished.
  void check_is_unfinished() const;

  RunDirectory directory_;
  std::shared_ptr<Objective> objective_;
  TrainingConfig config_;
  torch::Device device_;
  std::unique_ptr<Trainer> trainer_;
  TrainerState resumed_state_;
  std::vector<std::string> damaged_;
  bool is_finished_ = false;
};

/// Task, model and device of a recipe.
struct TrainingSetup {
  torch::Device device;              ///< resolved from the recipe
  std::shared_ptr<const Task> task;  ///< with its data
  Model model;                       ///< with new weights, on the device
};

/// Makes task and model of a recipe, and sets LibTorch's number of threads if the recipe has one.
/// `tokenizer` is passed to `make_task`. Throws InputError for a device that does not exist, and as
/// `make_task`.
ATTEND_API TrainingSetup make_training_setup(const Recipe& recipe,
                                             std::shared_ptr<const Tokenizer> tokenizer = nullptr);

/// A `TrainingRun` that trains the model of a recipe on its task.
///
///     auto run = RecipeRun::begin("runs/sort", find_task("sort").defaults);
///     run.finish(run.train());
///     auto model = RunDirectory::open("runs/sort").load().model;
class ATTEND_API RecipeRun {
 public:
  /// Creates the run directory. Throws as `make_training_setup` and `RunDirectory::create`.
  static RecipeRun begin(const std::filesystem::path& directory, const Recipe& recipe,
                         bool overwrite = false);
  /// Continues a run from its latest checkpoint; see `TrainingRun::resume`.
  static RecipeRun resume(const std::filesystem::path& directory, const Recipe& recipe);
  /// As `TrainingRun::begin_or_resume`.
  static RecipeRun begin_or_resume(const std::filesystem::path& directory, const Recipe& recipe);

  /// As `TrainingRun::train`.
  TrainResult train(const std::vector<Observer*>& observers = {},
                    const std::function<bool()>& stop_requested = {});
  /// As `TrainingRun::finish`; also writes the token embeddings.
  void finish(const TrainResult& result);

  /// The run directory.
  const RunDirectory& directory() const { return run_.directory(); }
  /// The training configuration.
  const TrainingConfig& config() const { return run_.config(); }
  /// The device of the model.
  torch::Device device() const { return run_.device(); }
  /// The state training continues from; step 0 for a new run.
  const TrainerState& resumed_state() const { return run_.resumed_state(); }
  /// Messages about damaged checkpoints that were skipped.
  const std::vector<std::string>& damaged() const { return run_.damaged(); }
  /// True if the run was finished before: nothing is left to train.
  bool is_finished() const { return run_.is_finished(); }
  /// All values of the run.
  const Recipe& recipe() const { return recipe_; }
  /// The task with its data.
  const Task& task() const { return *task_; }
  /// The model that is trained.
  Model& model() { return model_; }

 private:
  RecipeRun(RunDirectory directory, const Recipe& recipe, const TrainingSetup& setup);

  /// Opens an existing run, finished or not.
  static RecipeRun open(const std::filesystem::path& directory, const Recipe& recipe);

  Recipe recipe_;
  std::shared_ptr<const Task> task_;
  Model model_;
  TrainingRun run_;
};

}  // namespace attend::train
