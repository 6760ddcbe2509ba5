#pragma once

#include "attend/enum_names.h"
#include "attend/io/tokenizer.h"
#include "attend/train/checkpoint_store.h"
#include "attend/train/model.h"
#include "attend/train/recipe.h"
#include "attend/train/task.h"
#include "attend/train/trainer.h"

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace attend::train {

class RunLock;

/// What a run directory holds, besides the files of its tokenizer (see Tokenizer::files) and of the
/// embedding projector (see EmbeddingFiles).
struct RunFiles {
  static constexpr const char* recipe = "recipe.toml";  ///< all values, written out
  static constexpr const char* data = "data.json";  ///< its checksum, its classes, what is fixed
  static constexpr const char* model = "model.safetensors";  ///< weights of the lowest loss
  static constexpr const char* metrics = "metrics.jsonl";    ///< a line per report
  static constexpr const char* summary = "summary.json";     ///< what was reached
  static constexpr const char* checkpoints = "checkpoint";   ///< folder: what resuming needs
  static constexpr const char* tensorboard = "tensorboard";  ///< folder: the metrics again
  static constexpr const char* replaced = "replaced";        ///< folder: the run that was here,
                                                             ///< until the new one is finished
};

/// Whether writing to `file` would damage a run: it is, or would be, one of the run's own files, or
/// lies in one of its folders. Neither has to exist.
///
///     is_file_of_run("runs/demo", "runs/demo/data.json") == true
bool is_file_of_run(const std::filesystem::path& run, const std::filesystem::path& file);

/// Which weights of a run.
enum class Weights {
  best,  ///< of the evaluation with the lowest loss
  last,  ///< of the latest checkpoint
};

/// A trained model with what it takes to use it.
struct Run {
  Recipe recipe;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> classes;  ///< of a classifier: their names
  std::string data_checksum;         ///< of the data that it was trained on, as Task has it
  Model model;                       ///< in eval mode
};

/// Makes the directory for a new run, writes what is known of it before training, and keeps other
/// processes from it as long as the result lives. Throws InputError if another process writes to
/// it, or it exists and is not empty, unless `overwrite`: then the files of the run that it holds,
/// and nothing else, go to its folder `replaced`, where they stay until `finish_run`; without a
/// recipe.toml it is no run, and is refused.
std::shared_ptr<RunLock> create_run(const std::filesystem::path& directory, const Recipe& recipe,
                                    const Task& task, bool overwrite);

/// Keeps in a run directory what the trainer says must not be lost.
class RunCheckpointSink : public CheckpointSink {
 public:
  explicit RunCheckpointSink(const std::filesystem::path& directory);
  void save_best(const std::map<std::string, torch::Tensor>& weights) override;
  void save(const Checkpoint& snapshot) override;
  std::string latest_path() const override;

 private:
  std::filesystem::path directory_;
  CheckpointStore checkpoints_;
};

/// Writes what a run has reached, and lets go of the run that it replaced.
void finish_run(const std::filesystem::path& directory, const Recipe& recipe, const Model& model,
                const TrainResult& outcome);

/// Loads a run, finished or not; seeds LibTorch's global generator, as `make_model` does. Throws
/// InputError, naming the file, if something is missing or does not fit, and if it is no run: a
/// directory that holds a recipe.toml.
///
///     auto run = load_run("runs/demo");
///     auto evaluation = evaluate(run.model, *task_of(run));
Run load_run(const std::filesystem::path& directory, Weights weights = Weights::best);

/// The recipe of a run. Throws InputError as `load_run` does.
Recipe recipe_of_run(const std::filesystem::path& directory);

/// Makes ready to go on with a run: keeps other processes from it as long as the result lives.
/// Throws InputError, listing each difference, for another task, model, optimizer, seed, vocabulary
/// or data than it was begun with; other values of training may differ.
std::shared_ptr<RunLock> reopen_run(const std::filesystem::path& directory, const Recipe& recipe,
                                    const Task& task);

/// Writes the recipe that a reopened run goes on with.
void keep_recipe(const std::filesystem::path& directory, const Recipe& recipe);

/// Whether `finish_run` was done for a run that stands there; false if it was ended before.
bool is_finished(const std::filesystem::path& directory, const TrainerState& standing);

/// Its latest checkpoint that is whole; nothing if it was ended before the first.
std::optional<LoadedCheckpoint> latest_checkpoint(const std::filesystem::path& directory);

/// The task of a run, with its data. Throws InputError if its tokens or classes are no longer those
/// that the model was trained on, as after a change to the text file.
std::unique_ptr<Task> task_of(const Run& run);

}  // namespace attend::train

namespace attend {

template <>
struct EnumNames<train::Weights> {
  static constexpr std::array<std::string_view, 2> names{"best", "last"};
};

}  // namespace attend
