#pragma once

#include "attend/api.h"
#include "attend/io/safetensors.h"
#include "attend/train/model.h"
#include "attend/train/recipe.h"
#include "attend/train/task.h"
#include "attend/train/training_run.h"

#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attend::train {

/// The weights of another run with which a run begins; see `RecipeRunOptions::init_from`.
struct InitialWeights {
  std::filesystem::path directory;  ///< directory of the other run
  std::string run_id;               ///< identity of the other run, as in its data.json
  int64_t num_tensors = 0;          ///< number of tensors that were copied
  IncompatibleKeys keys = {};       ///< tensors that are new, and tensors of the other run that are
                                    ///< not used
  std::vector<std::string> changed_options = {};  ///< a line for each option of the model whose
                                                  ///< value differs from the other run
};

/// Task, model and device of a recipe.
struct TrainingSetup {
  torch::Device device;                                ///< resolved from the recipe
  std::shared_ptr<const Task> task;                    ///< with its data
  Model model;                                         ///< with its initial weights, on the device
  std::optional<InitialWeights> initial_weights = {};  ///< empty if all weights are random
};

/// Function that makes the task of a recipe with a tokenizer, as `make_task` does. It may return a
/// task that was already made for the same data and tokenizer, so that large files are read and
/// encoded only once.
using TaskMaker = std::function<std::shared_ptr<const Task>(
    const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer)>;

/// Makes the task and the model of a recipe. Seeds LibTorch's global generators with the recipe's
/// seed. `tokenizer` is passed to `task_maker`. Throws InputError for a device that is not
/// available, and in the same cases as `check_recipe`, `make_task` and `make_model`.
ATTEND_API TrainingSetup make_training_setup(const Recipe& recipe,
                                             std::shared_ptr<const Tokenizer> tokenizer = nullptr,
                                             const TaskMaker& task_maker = make_task);

/// Makes the task and the model of a recipe. The initial weights of the model are those of the run
/// in `RecipeRunOptions::init_from`, or random if `init_from` is empty.
ATTEND_API TrainingSetup make_training_setup(const Recipe& recipe,
                                             const std::filesystem::path& init_from,
                                             const TaskMaker& task_maker = make_task);

/// Returns a recipe for a run of `task` that begins with the weights of a run with the recipe
/// `source`: the default recipe of `task`, with the options of the model and the tokenizer of
/// `source`. If `source` has the same task, text and data options are also those of `source`. If
/// the tasks require different kinds of models, only the stack options and `max_seq_len` of the
/// model are taken from `source`. Throws InputError for an unknown task.
///
///     auto recipe = fine_tuning_recipe(RunDirectory::open("runs/base").recipe(), "text");
///     recipe.text = {"other.txt"};
///     RecipeRun run("runs/tuned", recipe, {.init_from = "runs/base"});
ATTEND_API Recipe fine_tuning_recipe(const Recipe& source, const std::string& task);

/// Options of a `RecipeRun`.
struct RecipeRunOptions {
  RunMode mode = RunMode::begin_or_resume;  ///< what to do with the directory
  /// Directory of another run, whose best weights are the initial weights; empty for random
  /// weights. See `fine_tuning_recipe`. A task that reads a file uses the tokenizer of the other
  /// run. The weights of the head are random if the other run has another kind of model, no such
  /// head, or other classes. All other tensors of the two models must have the same names and
  /// shapes; the blocks of a `LanguageModel` and of a `SequenceClassifier` correspond. The initial
  /// weights are saved in a checkpoint of step 0. Ignored by `RunMode::resume`.
  std::filesystem::path init_from = {};
  TaskMaker task_maker = make_task;  ///< makes the task
  /// The processes that train together, as in `TrainingRunOptions`. All of them read the data and,
  /// if the run is resumed or begins with the weights of another run, the run directory.
  std::shared_ptr<Processes> processes = single_process();
  bool shard_optimizer = false;  ///< as in `TrainingRunOptions`
};

/// A `TrainingRun` that trains the model of a recipe on its task.
///
///     RecipeRun run("runs/sort", find_task("sort").defaults);
///     run.finish(run.train());
///     auto model = RunDirectory::open("runs/sort").load().model;
class ATTEND_API RecipeRun {
 public:
  /// Makes the task and the model, and opens the run directory, as `options.mode` says; see
  /// `TrainingRun::TrainingRun`. With `RunMode::begin_or_resume`, a run that began with the weights
  /// of `RecipeRunOptions::init_from`, but was killed before it saved them, begins again. Throws
  /// InputError in the same cases as `make_training_setup` and the constructor of `TrainingRun`.
  /// Also throws InputError if a resumed run began with other weights than those of
  /// `RecipeRunOptions::init_from` (only with `RunMode::begin_or_resume`), if its data or values
  /// differ, and, for a new run with `init_from`, if the tokenizers or the models of the two runs
  /// do not fit, and in the same cases as `RunDirectory::load`.
  RecipeRun(const std::filesystem::path& directory, const Recipe& recipe,
            const RecipeRunOptions& options = {});

  /// Trains; see `TrainingRun::train`. Also writes `samples.jsonl` and the folder `embeddings` with
  /// the outputs and the token embeddings of the model at each evaluation.
  TrainResult train(const TrainerHooks& hooks = {});
  /// Does the same as `TrainingRun::finish`, and also writes the token embeddings.
  TrainResult finish(const TrainResult& result, const std::function<void()>& write_results = {},
                     const BatchCallback& on_batch = {});

  /// See `TrainingRun::directory`.
  const RunDirectory& directory() const { return run_.directory(); }
  /// See `TrainingRun::processes`.
  Processes& processes() const { return run_.processes(); }
  /// The device of the model.
  torch::Device device() const { return run_.device(); }
  /// See `TrainingRun::is_resumed`.
  bool is_resumed() const { return run_.is_resumed(); }
  /// See `TrainingRun::state`.
  const TrainerState& state() const { return run_.state(); }
  /// See `TrainingRun::damaged`.
  const std::vector<std::string>& damaged() const { return run_.damaged(); }
  /// See `TrainingRun::checkpoint_world_size`.
  int64_t checkpoint_world_size() const { return run_.checkpoint_world_size(); }
  /// See `TrainingRun::is_finished`.
  bool is_finished() const { return run_.is_finished(); }
  /// The weights of another run with which this run begins; empty if the initial weights are
  /// random, and for a resumed run.
  const std::optional<InitialWeights>& initial_weights() const { return initial_weights_; }
  /// The recipe of the run.
  const Recipe& recipe() const { return recipe_; }
  /// The task with its data.
  const Task& task() const { return *task_; }
  /// The model that is trained.
  Model& model() { return model_; }

 private:
  struct Start;
  RecipeRun(const std::filesystem::path& directory, const Recipe& recipe,
            const RecipeRunOptions& options, const Start& start);

  Recipe recipe_;
  std::shared_ptr<const Task> task_;
  Model model_;
  std::optional<InitialWeights> initial_weights_;
  TrainingRun run_;
};

}  // namespace attend::train
