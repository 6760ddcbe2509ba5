#pragma once

#include "attend/api.h"
#include "attend/train/model.h"
#include "attend/train/recipe.h"
#include "attend/train/task.h"
#include "attend/train/training_run.h"

#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace attend::train {

/// Task, model and device of a recipe.
struct TrainingSetup {
  torch::Device device;              ///< resolved from the recipe
  std::shared_ptr<const Task> task;  ///< with its data
  Model model;                       ///< with new weights, on the device
};

/// Makes the task and the model of a recipe. Seeds LibTorch's global generators with the recipe's
/// seed. `tokenizer` is passed to `make_task`. Throws InputError for a device that is not
/// available, and in the same cases as `check_recipe`, `make_task` and `make_model`.
ATTEND_API TrainingSetup make_training_setup(const Recipe& recipe,
                                             std::shared_ptr<const Tokenizer> tokenizer = nullptr);

/// A `TrainingRun` that trains the model of a recipe on its task.
///
///     auto run = RecipeRun::begin("runs/sort", find_task("sort").defaults);
///     run.finish(run.train());
///     auto model = RunDirectory::open("runs/sort").load().model;
class ATTEND_API RecipeRun {
 public:
  /// Creates the run directory. Throws InputError in the same cases as
  /// `make_training_setup` and `RunDirectory::create`.
  static RecipeRun begin(const std::filesystem::path& directory, const Recipe& recipe,
                         bool overwrite = false);
  /// Continues a run from its latest checkpoint; see `TrainingRun::resume`.
  static RecipeRun resume(const std::filesystem::path& directory, const Recipe& recipe);
  /// Begins a run in `directory`, or resumes the existing run; see `TrainingRun::begin_or_resume`.
  static RecipeRun begin_or_resume(const std::filesystem::path& directory, const Recipe& recipe);

  /// Trains; see `TrainingRun::train`.
  TrainResult train(const std::vector<Observer*>& observers = {},
                    const std::function<bool()>& stop_requested = {},
                    const std::function<bool()>& stop_evaluation = {}) {
    return run_.train(observers, stop_requested, stop_evaluation);
  }
  /// Does the same as `TrainingRun::finish`, and also writes the token embeddings.
  TrainResult finish(const TrainResult& result, const std::function<void()>& write_results = {});

  /// The run directory.
  const RunDirectory& directory() const { return run_.directory(); }
  /// The device of the model.
  torch::Device device() const { return run_.device(); }
  /// See `TrainingRun::resumed_state`.
  const TrainerState& resumed_state() const { return run_.resumed_state(); }
  /// See `TrainingRun::damaged`.
  const std::vector<std::string>& damaged() const { return run_.damaged(); }
  /// See `TrainingRun::is_finished`.
  bool is_finished() const { return run_.is_finished(); }
  /// The recipe of the run.
  const Recipe& recipe() const { return recipe_; }
  /// The task with its data.
  const Task& task() const { return *task_; }
  /// The model that is trained.
  Model& model() { return model_; }

 private:
  RecipeRun(const Recipe& recipe, const TrainingSetup& setup, TrainingRun run);

  /// Opens an existing run, finished or not.
  static RecipeRun open(const std::filesystem::path& directory, const Recipe& recipe);

  Recipe recipe_;
  std::shared_ptr<const Task> task_;
  Model model_;
  TrainingRun run_;
};

}  // namespace attend::train
