#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"
#include "attend/io/safetensors_header.h"
#include "attend/io/tokenizer.h"
#include "attend/models/model.h"
#include "attend/module_ref.h"
#include "attend/train/checkpoint_store.h"
#include "attend/train/recipe.h"
#include "attend/train/task.h"
#include "attend/train/trainer.h"

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend::train {

class RunLock;

/// Names of the files and folders in a run directory, except the lock file, the files of the
/// tokenizer (`Tokenizer::files`) and the files of the embedding projector (`EmbeddingFiles`).
struct RunFiles {
  static constexpr const char* recipe = "recipe.toml";       ///< all configuration values
  static constexpr const char* data = "data.json";           ///< identity and origin of the run,
                                                             ///< values that must be the same
                                                             ///< when the run is resumed
  static constexpr const char* model = "model.safetensors";  ///< weights of the best step
  static constexpr const char* adapter = "adapter.safetensors";  ///< instead of model.safetensors
                                                                 ///< if the run has a base model
  static constexpr const char* metrics = "metrics.jsonl";        ///< written by `MetricsLog`
  static constexpr const char* summary = "summary.json";         ///< result of a finished run
  static constexpr const char* report_text = "report.txt";       ///< samples, attention weights and
                                                                 ///< nearest neighbors, as text;
                                                                 ///< written by `attend train`
  static constexpr const char* report_page = "report.html";  ///< the run as a page for a browser;
                                                             ///< written by `attend train`
  static constexpr const char* samples = "samples.jsonl";    ///< outputs of the model, a line per
                                                             ///< evaluation
  static constexpr const char* embeddings = "embeddings";    ///< folder: token embeddings after
                                                             ///< evaluations, a file per step
  static constexpr const char* checkpoints = "checkpoint";   ///< folder: a `CheckpointStore`
  static constexpr const char* tensorboard = "tensorboard";  ///< folder: event files
};

/// Record of when, by which program and on which machine a run was created. Contains no host name
/// and no user name, since runs are published.
struct Provenance {
  std::string created;               ///< time in UTC, as in ISO 8601: 2026-01-31T12:00:00Z
  std::string version;               ///< version of this library
  std::vector<std::string> command;  ///< file name of the program, and its arguments; empty if the
                                     ///< system has no /proc/self/cmdline
  std::string os;                    ///< name and release of the kernel, and the architecture
  std::string cpu;                   ///< model of the CPU; empty if unknown
  int64_t num_cpus = 0;              ///< number of logical CPUs that the process may use
};

/// Returns the provenance of a run that this process creates now. The command line is that of the
/// process, so it is also known if a program other than `attend` creates the run.
ATTEND_API Provenance current_provenance();

/// Returns a JSON object with the fields of `provenance`.
ATTEND_API std::string to_json(const Provenance& provenance);

/// The model whose weights a run with low-rank adapters uses, and does not contain.
struct BaseModel {
  std::string path;      ///< absolute path of a run, or of a published model
  std::string checksum;  ///< CRC-32C of its weights
};

/// Identity and origin of a run, and the values that must be the same when it is resumed; saved as
/// data.json. `RunDirectory::create` sets the fields `run_id`, `provenance` and `files`.
struct RunRecord {
  std::string run_id = {};     ///< 128 random bits as 32 hex digits; also in all files with weights
  Provenance provenance = {};  ///< when and how the run was created
  std::string data_checksum;   ///< `Task::data_checksum`
  std::vector<std::string> classes;          ///< class names of a classifier
  std::map<std::string, std::string> fixed;  ///< configuration values that must not change, by key
  std::map<std::string, std::string> files = {};  ///< CRC-32C of recipe.toml and of the tokenizer's
                                                  ///< files, by name
  std::string init_from = {};  ///< `run_id` of the run whose weights were the initial weights;
                               ///< empty if the initial weights were random
  std::optional<BaseModel> base = {};  ///< of a run with adapters
  std::string recipe_name = {};        ///< `Recipe::name`
  std::string next_recipe = {};  ///< CRC-32C of the text that replaces recipe.toml; empty except
                                 ///< while `RunDirectory::save_recipe` writes the file
  /// Contents of recipe.toml and of the tokenizer's files, by name, for `RunDirectory::create` and
  /// `resume`, which throw c10::ValueError without recipe.toml; not part of data.json.
  std::map<std::string, std::string> texts = {};
};

/// Results of a finished run; saved as summary.json.
struct RunSummary {
  std::string run_id = {};                        ///< `RunRecord::run_id`
  std::string task = {};                          ///< name of the task; empty for a custom module
  int64_t parameters = 0;                         ///< number of parameters of the module
  int64_t steps = 0;                              ///< steps done
  int64_t best_step = 0;                          ///< step of the best weights
  int64_t threads = 0;                            ///< number of CPU threads
  double seconds = 0.0;                           ///< of training and evaluations
  double tokens_per_second = 0.0;                 ///< evaluations excluded
  double train_loss = 0.0;                        ///< of the last step; may be NaN
  double val_loss = 0.0;                          ///< of the best weights
  std::optional<double> val_accuracy = {};        ///< of the best weights; empty if there is none
  std::optional<double> val_f1 = {};              ///< of the best weights, see `Evaluation::f1`
  int64_t skipped_steps = 0;                      ///< steps with a non-finite loss or gradient
  std::map<std::string, std::string> files = {};  ///< CRC-32C of report.txt, by name; empty if the
                                                  ///< run has no report.txt
};

/// Returns a JSON object with the fields of `summary` that are not empty. NaN becomes null.
ATTEND_API std::string to_json(const RunSummary& summary);

/// Loads the tokenizer of the run in `directory`, of any kind. Throws InputError if a file is
/// missing or damaged.
ATTEND_API std::unique_ptr<Tokenizer> load_run_tokenizer(const std::filesystem::path& directory);

/// Selects the weights of a run.
enum class Weights {
  best,  ///< weights with the best validation metric, `TrainingConfig::best_metric`
  last,  ///< weights of the latest checkpoint
};

/// A trained model of this library with its recipe, tokenizer and classes; see
/// `RunDirectory::load`.
struct ATTEND_API Run {
  Recipe recipe;                               ///< values with which the model was trained
  std::shared_ptr<const Tokenizer> tokenizer;  ///< as saved with the run
  std::vector<std::string> classes;            ///< class names of a classifier
  std::string data_checksum;                   ///< `Task::data_checksum` of the training data
  Model model;                                 ///< in eval mode

  /// Merges low-rank adapters into the weights, and removes them from the model and the recipe, see
  /// `merge_lora`. Does nothing for a model without adapters.
  void merge_adapters();
  /// Returns the task of the run with its data. Throws InputError if vocabulary, classes or data
  /// have changed since training, for example because the text file was edited.
  std::unique_ptr<Task> make_task() const;
};

/// The directory of a run: its configuration, checkpoints, weights and results. All files survive a
/// crash or a kill: log lines are appended, and other files are replaced atomically. Objects made
/// by `create` and `resume` lock the directory against other processes as long as they exist, and
/// save the checkpoints and best weights of a `Trainer` in it.
///
///     auto run = RunDirectory::open("runs/sort").load();
///     auto evaluation = evaluate(run.model, *run.make_task());
class ATTEND_API RunDirectory : public CheckpointSink {
 public:
  /// Opens an existing run for reading. Throws InputError if `path` has no recipe.toml, or if
  /// data.json is missing or damaged.
  static RunDirectory open(const std::filesystem::path& path);
  /// Creates the directory of a new run. Throws InputError if another process writes to the
  /// directory, or if the directory is not empty. With `overwrite`, the directory may contain a
  /// run. If this run has weights or checkpoints, the directory is renamed to `replaced(path)`,
  /// which `finish_run` deletes, and renamed back if the result of this function is destroyed
  /// before the new run has saved a checkpoint. Otherwise, its files are deleted. If there already
  /// is a replaced run, that one is kept, and the run in `path` is deleted when the new run has
  /// saved a checkpoint. Files that do not belong to a run stay in the directory. Throws InputError
  /// if the directory is not a run and replaces none, is the working directory, or cannot be
  /// renamed, for example because it is a mount point.
  static RunDirectory create(const std::filesystem::path& path, RunRecord record,
                             bool overwrite = false);
  /// Opens a run to continue it; `now` has the values and files with which a new run would be
  /// created. Does not change its recipe, checkpoints, weights or results.
  /// Throws InputError if `path` has no recipe.toml, if another process writes to the run, or if
  /// the run is finished and has no checkpoints. Also throws InputError if the run was created with
  /// another task, model, optimizer, seed, vocabulary, data or `TrainingRunOptions::values`; the
  /// message lists each difference. Training values other than optimizer and seed may differ. Also
  /// throws InputError if data.json, recipe.toml or the tokenizer is damaged or was changed, or if
  /// model.safetensors belongs to another run.
  static RunDirectory resume(const std::filesystem::path& path, const RunRecord& now);

  ~RunDirectory() override;
  RunDirectory(RunDirectory&&) noexcept;
  /// Also moves the lock; the files on disk are not moved.
  RunDirectory& operator=(RunDirectory&&) noexcept;

  /// True if `path` contains a run.
  static bool exists(const std::filesystem::path& path);
  /// True if a process, which may be this one, writes to the run in `path`. Writes no file.
  static bool is_locked(const std::filesystem::path& path);
  /// Throws InputError if `path` contains files that `create` would not overwrite, or if another
  /// process writes to the run in `path`. Call this function before long computations whose results
  /// the run needs.
  static void check_can_create(const std::filesystem::path& path, bool overwrite = false);
  /// True if writing to `file` would damage the run in `path`: `file` is one of the files of the
  /// run, or in one of its folders. Neither path has to exist.
  ///
  ///     RunDirectory::owns("runs/demo", "runs/demo/data.json") == true
  static bool owns(const std::filesystem::path& path, const std::filesystem::path& file);

  /// Returns the directory of the run that a run in `path` replaces; see `create`. It exists until
  /// the new run is finished.
  ///
  ///     RunDirectory::replaced("runs/demo") == "runs/.demo.replaced"
  static std::filesystem::path replaced(const std::filesystem::path& path);
  /// Returns a clause for messages about `path` that names the run that it replaces, or an empty
  /// string if there is none.
  static std::string replaced_clause(const std::filesystem::path& path);

  /// The path of the directory.
  const std::filesystem::path& path() const { return path_; }
  /// The path of a file in the directory, for example `file(RunFiles::metrics)`.
  std::filesystem::path file(const char* name) const { return path_ / name; }
  /// The content of data.json, read when the run was opened.
  const RunRecord& record() const { return record_; }

  /// Reads the recipe. Throws InputError if recipe.toml was changed, is damaged or belongs to
  /// another run, or if the run trains a custom module.
  Recipe recipe() const;
  /// True if the run trains a custom module (`TrainingRun`). Such a run has no `Recipe`.
  bool is_custom() const;
  /// Throws InputError with the name of the file if recipe.toml or a file of the tokenizer was
  /// changed, is damaged or belongs to another run.
  void check_files() const;
  /// Throws InputError if a value of `recipe` differs from the recipe of the run; the message lists
  /// each difference. Paths may differ, since the files may have been moved.
  void check_same_values(const Recipe& recipe) const;
  /// Throws InputError if a file of texts in `recipe` does not exist. The message says how to
  /// resume the run with a file that was moved. `recipe`: the recipe of the run, possibly with
  /// other paths.
  void check_texts(const Recipe& recipe) const;
  /// Reads the configuration of a run that trains a custom module. Throws InputError if recipe.toml
  /// was changed, is damaged or belongs to another run.
  CustomConfig custom_config() const;
  /// Replaces the text of recipe.toml by `toml`, for example when a run is resumed with other
  /// training values, and its checksum in data.json. If the process is killed, the run has one of
  /// the two texts. Throws InputError if recipe.toml was changed otherwise.
  void save_recipe(const std::string& toml);

  /// The checkpoints of the run.
  const CheckpointStore& checkpoints() const { return checkpoints_; }
  /// The path of the best weights: `RunFiles::model`, or `RunFiles::adapter` if the run has a base
  /// model.
  std::filesystem::path weights_file() const;
  /// Returns which weights can be loaded: the best weights if they have been saved, else the last
  /// weights; std::nullopt if no weights have been saved.
  std::optional<Weights> available_weights() const;
  /// Reads the header of `weights_file()`. Throws InputError if the file is missing, damaged or
  /// belongs to another run.
  SafetensorsHeader weights_header() const;
  /// Returns the run's weights by name, on the CPU: without those of the base model. Throws
  /// InputError if no weights have been saved yet, or if `weights_file()` (`Weights::best`) or the
  /// newest checkpoint (`Weights::last`) is damaged or belongs to another run.
  std::map<std::string, torch::Tensor> state_dict(Weights weights) const;
  /// Copies the run's weights into `module`, which may be on any device. If the run has a base
  /// model, the other tensors of `module` must already have its weights, and do not change. Throws
  /// InputError in the same cases as `state_dict`, and if the weights do not match the module.
  void load_weights(ModuleRef module, Weights weights = Weights::best) const;
  /// Loads a run that trains a model of this library; the run may be unfinished. The loaded model
  /// is in eval mode. A run with adapters also loads its base model; see `merge_lora`. Does not
  /// change LibTorch's random number generators. Throws InputError if a file is missing, damaged,
  /// of another run, or inconsistent with the recipe; the message names the file, or the directory
  /// if no weights have been saved yet. Also throws InputError if the base model is missing or has
  /// changed; the message contains its path and checksums.
  Run load(Weights weights = Weights::best) const;

  /// Throws std::runtime_error if this run was created or resumed, and its directory was removed,
  /// moved or replaced since then. `lost`: name of the data that is lost, for the message.
  void check_in_place(const std::string& lost) const;
  /// Calls `save`, which writes to the directory. Throws as `check_in_place`, also if the directory
  /// was removed or moved while `save` wrote to it.
  void save_in_place(const std::string& lost, const std::function<void()>& save) const;
  /// Writes `weights_file()`. Throws std::runtime_error if the file cannot be written, and as
  /// `check_in_place`.
  void save_best(const std::map<std::string, torch::Tensor>& weights) override;
  /// Saves a checkpoint in `checkpoints()`. Throws as `CheckpointStore::save` and `check_in_place`.
  void save(const Checkpoint& checkpoint) override;
  std::string latest_path() const override { return checkpoints_.latest().string(); }

  /// Reads summary.json, which stays while a finished run is trained further; std::nullopt if the
  /// run was never finished. Throws InputError if the file is damaged or belongs to another run.
  std::optional<RunSummary> summary() const;
  /// True if the run has reached `config.max_steps` or has run out of patience, and summary.json
  /// was written at this step. A run that has no best weights at `config.max_steps` needs no
  /// summary.json. `state`: of the latest checkpoint. Throws InputError as `summary` does.
  bool is_finished(const TrainerState& state, const TrainingConfig& config) const;
  /// Writes summary.json and deletes the replaced run, if there is one.
  void finish_run(ConstModuleRef module, const TrainResult& result) const;

 private:
  /// `lock` is null for a run that is only read.
  RunDirectory(std::filesystem::path path, std::unique_ptr<RunLock> lock);

  /// Throws InputError if recipe.toml differs from its checksum in data.json.
  void check_recipe_file() const;

  std::filesystem::path path_;
  RunRecord record_;
  CheckpointStore checkpoints_;
  std::unique_ptr<RunLock> lock_;
};

}  // namespace attend::train

namespace attend {

/// Names of `train::Weights`.
template <>
struct EnumNames<train::Weights> {
  static constexpr std::array<std::string_view, 2> names{"best", "last"};
};

}  // namespace attend
