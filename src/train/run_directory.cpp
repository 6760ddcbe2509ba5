// Creates, resumes, loads and finishes runs.
#include "attend/train/run_directory.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/io/safetensors_header.h"
#include "attend/io/tokenizers.h"
#include "attend/nn/parameter_count.h"
#include "io/files.h"
#include "io/utf8.h"
#include "ops/rng_state.h"
#include "train/checksum.h"
#include "train/recipe_fields.h"
#include "train/run_files.h"
#include "train/run_lock.h"
#include "train/run_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace attend::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Key of the checksum in the metadata of a run's best weights.
constexpr const char* kWeightsChecksum = "crc32c";

/// Saves checkpoints and best weights in a run directory.
class RunCheckpointSink : public CheckpointSink {
 public:
  RunCheckpointSink(const RunDirectory& run, std::shared_ptr<RunLock> lock)
      : lock_(std::move(lock)),
        model_(run.file(RunFiles::model)),
        run_id_(read_record(run.file(RunFiles::data)).run_id),
        checkpoints_(run.checkpoints()) {}

  void save_best(const std::map<std::string, torch::Tensor>& weights) override {
    save_in_place("the best weights", [&] {
      save_safetensors(model_, {.tensors = weights,
                                .metadata = {{"format", "pt"},
                                             {kRunId, run_id_},
                                             {kWeightsChecksum, checksum_of(weights)}}});
    });
  }
  void save(const Checkpoint& checkpoint) override {
    save_in_place(fmt::format("the checkpoint of step {}", checkpoint.trainer_state.step),
                  [&] { checkpoints_.save(checkpoint); });
  }
  std::string latest_path() const override { return checkpoints_.latest().string(); }

 private:
  /// Calls `save`. Throws if the directory was removed or moved before or while `save` wrote to it.
  template <typename Save>
  void save_in_place(const std::string& lost, const Save& save) const {
    const auto check = [&] {
      if (lock_ != nullptr) lock_->check_in_place(lost);
    };
    check();
    try {
      save();
    } catch (const std::exception&) {
      check();
      throw;
    }
  }

  std::shared_ptr<RunLock> lock_;  // null for a run that is only read
  fs::path model_;
  std::string run_id_;
  CheckpointStore checkpoints_;
};

/// Returns the value of `key` in summary.json; null if the file or the key is missing.
Json summary_value(const RunDirectory& run, const char* key) {
  const auto summary = read_summary(run.path());
  return summary.contains(key) ? summary[key] : Json(nullptr);
}

/// Returns the value of `key` in the metadata of a safetensors file; empty if there is none.
std::string metadata_value(const std::map<std::string, std::string>& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : found->second;
}

/// Weights of a run, and the path of the file or checkpoint that contains them.
struct FoundWeights {
  std::map<std::string, torch::Tensor> tensors;
  fs::path path;
};

FoundWeights read_weights(const RunDirectory& run, Weights weights) {
  const auto directory = run.path().string();
  if (weights == Weights::last) {
    if (auto found = run.latest_checkpoint()) {
      // An older checkpoint is not loaded instead: its weights are not the last ones.
      if (!found->damaged.empty()) {
        throw InputError(fmt::format("{}; delete this checkpoint to load the weights of {}",
                                     fmt::join(found->damaged, "; "), found->path.string()));
      }
      return {std::move(found->checkpoint.weights), found->path};
    }
    throw InputError(fmt::format("{}: no checkpoint has been saved yet{}", directory,
                                 replaced_clause(run.path())));
  }
  const auto file = run.file(RunFiles::model);
  if (!fs::exists(file) && !fs::exists(run.file(RunFiles::summary))) {
    throw InputError(
        fmt::format("{}: no best weights: the run has no evaluation with a finite validation loss "
                    "yet; resume the run, or load Weights::last{}",
                    directory, replaced_clause(run.path())));
  }
  auto content = load_safetensors(file);
  check_run_id(file, metadata_value(content.metadata, kRunId),
               read_record(run.file(RunFiles::data)).run_id);
  const auto found = checksum_of(content.tensors);
  const auto expected = metadata_value(content.metadata, kWeightsChecksum);
  if (found != expected) {
    throw InputError(fmt::format("{}: damaged: checksum '{}', expected '{}'", file.string(), found,
                                 printable(expected)));
  }
  return {std::move(content.tensors), file};
}

}  // namespace

std::unique_ptr<Task> Run::make_task() const {
  auto task = train::make_task(recipe, tokenizer);
  const auto data = recipe.text.empty() ? recipe.task : paths_text(recipe.text);
  if (task->tokenizer().files() != tokenizer->files()) {
    throw InputError(
        fmt::format("the vocabulary of '{}' ({} tokens) differs from the vocabulary of the run ({} "
                    "tokens)",
                    data, task->tokenizer().size(), tokenizer->size()));
  }
  const auto found_classes = task->classes();
  if (found_classes != classes) {
    throw InputError(
        fmt::format("{}: the classes differ from the classes of the run: found [{}], expected [{}]",
                    data, fmt::join(found_classes, ", "), fmt::join(classes, ", ")));
  }
  if (task->data_checksum() != data_checksum) {
    throw InputError(
        fmt::format("{}: changed since training (checksum {}, expected {}), so the split of "
                    "this data into training and validation data is unknown",
                    changed_data(recipe, data_checksum, task->data_checksum()),
                    task->data_checksum(), data_checksum));
  }
  return task;
}

RunDirectory::RunDirectory(fs::path path, std::shared_ptr<RunLock> lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

RunDirectory::~RunDirectory() = default;
RunDirectory::RunDirectory(RunDirectory&&) noexcept = default;
RunDirectory& RunDirectory::operator=(RunDirectory&& other) noexcept {
  overwrite_guard_.reset();  // moves files, so it needs the lock
  path_ = std::move(other.path_);
  lock_ = std::move(other.lock_);
  overwrite_guard_ = std::move(other.overwrite_guard_);
  return *this;
}

RunDirectory RunDirectory::open(const fs::path& path) {
  if (!exists(path)) {
    if (const auto runs = runs_clause(path); !runs.empty()) {
      throw InputError(fmt::format("{}: not a run directory, but {}; pass the directory of a run",
                                   path.string(), runs));
    }
    throw InputError(fmt::format("{}: not a run directory: it has no {}{}", path.string(),
                                 RunFiles::recipe, replaced_clause(path)));
  }
  undo_interrupted_overwrite(path);
  return {path, nullptr};
}

RunDirectory RunDirectory::create(const fs::path& path, const RunContent& content, bool overwrite) {
  check_can_create(path, overwrite);
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path)) {
    throw InputError(fmt::format("{} cannot be created: {}", path.string(),
                                 error ? error.message() : "a file with this name exists"));
  }
  RunDirectory run(path, std::make_shared<RunLock>(path));
  // Checks the directory again, since another process may have created a run between the first
  // check and the lock.
  run.overwrite_guard_ = std::make_unique<OverwriteGuard>(path, overwrite);
  remove_temporary_files(path);
  replace_file(run.file(RunFiles::data), to_json(new_record(content)));
  for (const auto& [name, text] : content.files) replace_file(path / name, text);
  // Last: a directory with a recipe is a run.
  replace_file(run.file(RunFiles::recipe), content.recipe);
  return run;
}

RunDirectory RunDirectory::resume(const fs::path& path, const RunContent& content) {
  open(path);  // throws if the path is not a run
  // The directory is locked before the checks, so that no other process changes the files after
  // the checks.
  RunDirectory run(path, std::make_shared<RunLock>(path));
  const auto record = read_record(run.file(RunFiles::data));
  check_files(path, record);
  if (const auto model = run.file(RunFiles::model); fs::exists(model)) {
    check_run_id(model, metadata_value(read_safetensors_header(model).metadata, kRunId),
                 record.run_id);
  }
  auto differences = differences_of(record, content.record);
  for (const auto& [name, text] : content.files) {
    if (read_bytes(path / name) != text)
      differences.push_back(fmt::format("the tokenizer differs from {} of the run", name));
  }
  if (fs::exists(run.file(RunFiles::summary)) &&
      CheckpointStore(run.file(RunFiles::checkpoints)).latest().empty()) {
    throw InputError(fmt::format("{}: the run is finished and has no checkpoints to resume from",
                                 path.string()));
  }
  throw_if_different(path, differences);
  remove_temporary_files(path);
  return run;
}

bool RunDirectory::exists(const fs::path& path) {
  return fs::is_regular_file(path / RunFiles::recipe);
}

bool RunDirectory::owns(const fs::path& path, const fs::path& file) {
  const auto inside = fs::weakly_canonical(fs::absolute(file))
                          .lexically_relative(fs::weakly_canonical(fs::absolute(path)));
  // The first component of `inside` is ".." if `file` is outside of `path`.
  return is_file_of_run(inside.begin()->string());
}

Recipe RunDirectory::recipe() const {
  const auto path = file(RunFiles::recipe);
  const auto record = read_record(file(RunFiles::data));
  const auto& fixed = record.fixed;
  if (is_custom_kind(fixed)) {
    throw InputError(fmt::format(
        "{}: not trained from a recipe; use RunDirectory::load_weights with your module",
        path_.string()));
  }
  auto recipe = read_recipe(path, Recipe{});
  with_source(path.string(), [&] {
    check_recipe(recipe);
    const auto differences = differences_of(fixed, fixed_values(recipe));
    if (differences.empty()) return;
    throw InputError(
        fmt::format("changed after the run was created: {}", fmt::join(differences, "; ")));
  });
  check_recipe_file(path_, record);
  recipe.name = record.recipe_name;
  return recipe;
}

bool RunDirectory::is_custom() const {
  return is_custom_kind(read_record(file(RunFiles::data)).fixed);
}

CustomConfig RunDirectory::custom_config() const {
  auto config = read_custom_config(file(RunFiles::recipe));
  check_recipe_file(path_, read_record(file(RunFiles::data)));
  return config;
}

void RunDirectory::save_recipe(const std::string& toml) const {
  const auto path = file(RunFiles::recipe);
  auto record = read_record(file(RunFiles::data));
  check_recipe_file(path_, record);
  const auto save = [&] { replace_file(file(RunFiles::data), to_json(record)); };
  record.files[RunFiles::recipe] = checksum_text(crc32c_of_file(path));
  record.next_recipe = checksum_text(crc32c(toml));
  if (record.next_recipe == record.files[RunFiles::recipe]) return;
  save();  // a process that is killed now leaves a run with one of the two recipes
  replace_file(path, toml);
  record.files[RunFiles::recipe] = std::exchange(record.next_recipe, "");
  save();
}

std::optional<LoadedCheckpoint> RunDirectory::latest_checkpoint() const {
  return checkpoints().load_latest();
}

CheckpointStore RunDirectory::checkpoints() const {
  return CheckpointStore(file(RunFiles::checkpoints), read_record(file(RunFiles::data)).run_id);
}

std::map<std::string, torch::Tensor> RunDirectory::state_dict(Weights weights) const {
  return read_weights(*this, weights).tensors;
}

void RunDirectory::load_weights(ModuleRef module, Weights weights) const {
  const auto found = read_weights(*this, weights);
  with_source(found.path.string(), [&] { load_state_dict(module, found.tensors); });
}

Run RunDirectory::load(Weights weights) const {
  auto recipe = this->recipe();
  auto record = read_record(file(RunFiles::data));
  check_files(path_, record);
  read_summary(path_);  // throws if the file is damaged or of another run
  std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(path_);
  auto model = [&] {
    // Initializing the weights must not change the state of LibTorch's CPU generator.
    const RngGuard rng(rng_state({torch::kCPU}));
    return make_model(recipe, tokenizer->size(), record.classes.size());
  }();
  load_weights(module_of(model), weights);
  module_of(model).eval();
  return {.recipe = std::move(recipe),
          .tokenizer = std::move(tokenizer),
          .classes = std::move(record.classes),
          .data_checksum = std::move(record.data_checksum),
          .model = std::move(model)};
}

void RunDirectory::check_in_place(const std::string& lost) const {
  if (lock_ != nullptr) lock_->check_in_place(lost);
}

std::unique_ptr<CheckpointSink> RunDirectory::checkpoint_sink() const {
  return std::make_unique<RunCheckpointSink>(*this, lock_);
}

int64_t RunDirectory::num_threads() const {
  const auto threads = summary_value(*this, "threads");
  return threads.is_number_integer() ? threads.get<int64_t>() : 0;
}

bool RunDirectory::is_finished(const TrainerState& state, const TrainingConfig& config) const {
  // The summary of an earlier end stays while more steps are trained. There is none if the process
  // was killed between the last step and `finish`.
  const bool has_summary = summary_value(*this, "steps") == state.step;
  if (state.evaluation_pending) return false;
  const bool out_of_patience =
      config.patience > 0 && state.evaluations_without_improvement >= config.patience;
  return (state.step == config.max_steps && (has_summary || !state.best)) ||
         (has_summary && out_of_patience);
}

void RunDirectory::finish(const std::string& task, ConstModuleRef module,
                          const TrainResult& result) const {
  const auto& state = result.state;
  const auto& best = state.best.value();
  Json summary{{kRunId, read_record(file(RunFiles::data)).run_id}};
  if (!task.empty()) summary["task"] = task;
  summary.update({{"parameters", parameter_count(module)},
                  {"steps", state.step},
                  {"best_step", state.best_step},
                  {"threads", state.threads},
                  {"seconds", state.seconds()},
                  {"tokens_per_second", result.tokens_per_second},
                  {"train_loss", state.train_loss},
                  {"val_loss", best.loss}});
  if (const auto accuracy = best.accuracy()) summary["val_accuracy"] = *accuracy;
  if (state.skipped_steps > 0) summary["skipped_steps"] = state.skipped_steps;
  replace_file(file(RunFiles::summary), to_text_with_checksum(summary));
  delete_replaced(path_);
}

}  // namespace attend::train
