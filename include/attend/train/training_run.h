#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"
#include "attend/train/objective.h"
#include "attend/train/run_directory.h"
#include "attend/train/task.h"
#include "attend/train/trainer.h"
#include "attend/train/training_setup.h"

#include <torch/types.h>

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend {
namespace train {

/// What to do with the directory of a run.
enum class RunMode {
  begin_or_resume,  ///< resume the run in the directory, or begin one. If the run is finished,
                    ///< there is nothing left to train
  begin,            ///< begin a run; the directory must not contain another one
  overwrite,        ///< begin a run, and replace another one: see `RunDirectory::create`
  resume,           ///< resume the run in the directory; as with `begin_or_resume`, it may be
                    ///< finished
};

}  // namespace train

template <>
struct EnumNames<train::RunMode> {
  static constexpr std::array<std::string_view, 4> names{"begin_or_resume", "begin", "overwrite",
                                                         "resume"};
};

namespace train {

/// Options of a `TrainingRun`. Those of a run of a recipe are for `make_training_run` only, those
/// of an objective for the constructor of `TrainingRun` only; they are refused elsewhere.
struct TrainingRunOptions {
  RunMode mode = RunMode::begin_or_resume;  ///< what to do with the directory
  /// Of an objective: values that describe module and data, for example {"num_layers", "4"}; saved
  /// in recipe.toml. A run is resumed only with the same values.
  std::map<std::string, std::string> values = {};
  Schedule schedule = {};  ///< learning rate of each step; by default `lr_at` with the config
  /// Of an objective: any optimizer of LibTorch except LBFGS for the objective's module; by default
  /// `make_optimizer` with the config. See `Trainer::Trainer`. A run is resumed only with an
  /// optimizer of the same type.
  std::shared_ptr<torch::optim::Optimizer> optimizer = nullptr;
  /// Of a recipe: directory of another run, whose best weights are the initial weights, or folder
  /// of a published model (`InitialModel`); empty for random weights. See `fine_tuning_recipe`. A
  /// task that reads a file uses the tokenizer of the other run. The options of a published model
  /// must be those of `recipe`, except of regularization, length and pooling. The weights of the
  /// head are random if the other run has another kind of model, no such head, or other classes.
  /// All other tensors of the two models must have the same names and shapes; the blocks of a
  /// `LanguageModel` and of a `SequenceClassifier` correspond. The initial weights are saved in a
  /// checkpoint of step 0. Ignored by `RunMode::resume`.
  std::filesystem::path init_from = {};
  TaskMaker task_maker = make_task;  ///< of a recipe: makes the task
  /// The processes that train together; see `Trainer`. Each of them makes the same `TrainingRun`.
  /// Only rank 0 writes the run directory. With a recipe, all of them read the data and, if the run
  /// is resumed or begins with the weights of another run, the run directory.
  std::shared_ptr<Processes> processes = single_process();
  /// Each process keeps a part of the optimizer's state; see `ShardedOptimizer`. A single process
  /// ignores it.
  bool shard_optimizer = false;
};

/// A `Trainer` with a run directory: saves configuration, metrics, TensorBoard events, checkpoints,
/// the best weights and a summary, and resumes from the latest checkpoint after a crash or a kill.
/// Works with any `Objective`; `make_training_run` is for the models of this library. The directory
/// is locked against other processes as long as the TrainingRun exists.
///
///     TrainingRun run("runs/vit", objective, config);
///     run.finish(run.train());
///
/// A program with these two lines can be killed and started again at any time: it resumes an
/// unfinished run, and loads the best weights of a finished run.
class ATTEND_API TrainingRun {
 public:
  /// Opens the run directory, as `options.mode` says, moves the module to `config.device`, and
  /// restores the latest checkpoint of a run that is resumed. If it has none, training starts
  /// again. The values of `config`, except `optimizer` and `seed`, may differ from those of a
  /// resumed run. Throws InputError for a value of `config` that is out of range, for a device that
  /// is not available, and in the same cases as `RunDirectory::create` or `RunDirectory::resume`.
  /// Also throws InputError if the latest checkpoint is from a step after `config.max_steps`, and
  /// c10::ValueError for an option of `make_training_run`.
  /// Several processes throw InputError if `config`, `options.values`, `options.shard_optimizer` or
  /// `Objective::data_samples` differ between them, or if not all of them resume the run.
  TrainingRun(const std::filesystem::path& directory, std::shared_ptr<Objective> objective,
              const TrainingConfig& config, const TrainingRunOptions& options = {});
  /// Trains, and writes logs, checkpoints and best weights to the run directory. A run of a recipe
  /// also writes `samples.jsonl` and the folder `embeddings` with the outputs and the token
  /// embeddings of the model at each evaluation. LibTorch's number
  /// of threads is changed only during the call. The observers are called on the calling thread, in
  /// rank 0 only. After a requested stop, call `train` again to continue. Returns at once if
  /// `is_finished()`. Throws in the same cases as `Trainer::run`, std::runtime_error if the run
  /// directory was removed, moved or replaced, and c10::ValueError if `hooks` has a
  /// `checkpoint_sink`.
  TrainResult train(const TrainerHooks& hooks = {});

  /// Loads the best weights into the module, sets eval mode, moves the module to the CPU, calls
  /// `write_results`, writes the summary, and deletes the run that was overwritten, if there is
  /// one. A run of a recipe also writes the token embeddings. Of several processes, all get the
  /// weights, and rank 0 writes the files. If evaluations during training used a part of the
  /// validation data (`TrainingConfig::eval_batches`), first evaluates the best weights on all of
  /// it. Returns `result` with this evaluation as the best, and calls `on_batch` during it, in all
  /// processes. Do not call `finish` after a requested stop
  /// (`StopReason::stop_requested`).
  ///
  ///     TrainingRun run("runs/vit", objective, config);
  ///     run.finish(run.train(), [&] {
  ///       save_safetensors("vit.safetensors", {state_dict(objective->module()), {}});
  ///     });
  TrainResult finish(const TrainResult& result, const std::function<void()>& write_results = {},
                     const BatchCallback& on_batch = {});

  /// The run directory. Throws c10::ValueError in processes other than rank 0.
  const RunDirectory& directory() const;
  /// The recipe with its task and model. Throws c10::ValueError if the run trains an objective of
  /// your own.
  TrainingSetup& setup();
  /// The same.
  const TrainingSetup& setup() const { return const_cast<TrainingRun&>(*this).setup(); }
  /// The processes that train together.
  Processes& processes() const { return *processes_; }
  /// The device of the module.
  torch::Device device() const { return device_; }
  /// True if the run existed, also if it had no checkpoint from which training continues.
  bool is_resumed() const { return is_resumed_; }
  /// The progress so far: before `train`, that of the run that is resumed. In processes other than
  /// rank 0, known after `train`.
  const TrainerState& state() const { return trainer_->state(); }
  /// Messages about damaged checkpoints that were skipped.
  const std::vector<std::string>& damaged() const { return damaged_; }
  /// Number of processes that saved the checkpoint from which training continues; 0 without one,
  /// and in processes other than rank 0. With another number of processes, dropout has other random
  /// numbers than without the interruption.
  int64_t checkpoint_world_size() const { return checkpoint_world_size_; }
  /// True if the run was already finished when it was opened, so that nothing is left to train.
  bool is_finished() const { return is_finished_; }

 private:
  friend ATTEND_API TrainingRun make_training_run(const std::filesystem::path&, const Recipe&,
                                                  const TrainingRunOptions&);
  /// `mode`: what rank 0 does with the directory; `resume` in all processes if it resumes the run.
  /// `setup`: null without a recipe.
  TrainingRun(const std::filesystem::path& directory, const RunRecord& record,
              std::shared_ptr<Objective> objective, RunMode mode, const TrainingConfig& config,
              const TrainingRunOptions& options, std::shared_ptr<TrainingSetup> setup);
  /// Restores the latest checkpoint, if there is one. Throws InputError if there is none and the
  /// initial weights of the run were not random.
  void restore_checkpoint();
  /// Evaluates the module on all validation data.
  Evaluation evaluate(const BatchCallback& on_batch);

  TrainingConfig config_;
  std::shared_ptr<Processes> processes_;
  std::shared_ptr<Objective> objective_;
  std::shared_ptr<TrainingSetup> setup_;
  torch::Device device_;
  bool is_resumed_;
  std::shared_ptr<RunDirectory> directory_;  // null in processes other than rank 0
  std::unique_ptr<Trainer> trainer_;
  std::vector<std::string> damaged_;
  int64_t checkpoint_world_size_ = 0;
  bool is_finished_ = false;
};

/// Returns a `TrainingRun` that trains the model of a recipe on its task.
///
/// With `RunMode::begin_or_resume`, a run that began with the weights of
/// `TrainingRunOptions::init_from`, but was killed before it saved them, begins again. Throws
/// InputError in the same cases as `make_training_setup` and the constructor of `TrainingRun`. Also
/// throws InputError if a resumed run began with other weights than those of `init_from` (only with
/// `RunMode::begin_or_resume`), if its data or values differ, and, for a new run with `init_from`,
/// if the tokenizers or the models of the two runs do not fit, and in the same cases as
/// `RunDirectory::load`. Throws c10::ValueError for an option of an objective of your own.
///
///     auto run = make_training_run("runs/sort", find_task("sort").defaults);
///     run.finish(run.train());
///     auto model = RunDirectory::open("runs/sort").load().model;
ATTEND_API TrainingRun make_training_run(const std::filesystem::path& directory,
                                         const Recipe& recipe,
                                         const TrainingRunOptions& options = {});

}  // namespace train
}  // namespace attend
