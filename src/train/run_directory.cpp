// The files of a run directory.
#include "attend/train/run_directory.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/io/subword_tokenizer.h"
#include "attend/io/tokenizers.h"
#include "attend/nn/parameter_count.h"
#include "attend/train/embedding_files.h"
#include "io/files.h"
#include "train/checksum.h"
#include "train/run_content.h"
#include "train/run_lock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>

namespace attend::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The files of a finished run, in the order in which they are moved to `replaced`: without its
/// recipe it is no longer a run, and the summary, moved last, marks the move as complete.
constexpr std::array kFilesOfRun{
    RunFiles::checkpoints,  RunFiles::tensorboard,  RunFiles::metrics, EmbeddingFiles::table,
    EmbeddingFiles::tokens, EmbeddingFiles::config, RunFiles::model,   kTokenizerFile,
    kSubwordFile,           RunFiles::data,         RunFiles::recipe,  RunFiles::summary};

constexpr const char* kChecksum = "crc32c";  // in the metadata of the weights

/// Returns the checksum of all elements, in the order of the names.
std::string checksum_of(const std::map<std::string, torch::Tensor>& tensors) {
  uint32_t sum = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = tensor.detach().cpu().contiguous();
    sum = crc32c({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}, sum);
  }
  return fmt::format("{:08x}", sum);
}

/// Adds a line to `differences` if two values differ.
void compare(const std::string& what, const std::string& run, const std::string& now,
             std::vector<std::string>& differences) {
  if (run != now)
    differences.push_back(fmt::format("{}: '{}' in the run, now '{}'", what, run, now));
}

std::vector<std::string> differences_of(const std::map<std::string, std::string>& run,
                                        const std::map<std::string, std::string>& now) {
  std::vector<std::string> differences;
  const auto find = [](const auto& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string() : found->second;
  };
  for (const auto& [key, value] : now) compare(key, find(run, key), value, differences);
  for (const auto& [key, value] : run) {
    if (!now.contains(key)) compare(key, value, "", differences);
  }
  return differences;
}

/// True if `file` is a temporary file that a killed process left of a file of a run.
bool is_fragment(const fs::path& file) {
  const auto name = file.filename().string();
  return name.ends_with(".tmp") && std::ranges::any_of(kFilesOfRun, [&](const char* whole) {
           return name.starts_with(fmt::format("{}.", whole));
         });
}

void remove_fragments(const fs::path& directory) {
  std::vector<fs::path> fragments;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (is_fragment(entry.path())) fragments.push_back(entry.path());
  }
  for (const auto& fragment : fragments) fs::remove(fragment);
}

/// True if a directory contains more than what a process killed in `create` leaves there.
bool is_taken(const fs::path& directory) {
  std::error_code missing;
  if (!fs::exists(directory, missing)) return false;
  // Such a process created the lock file first: without it, files of these names are the user's.
  if (!fs::exists(directory / RunLock::kFile, missing)) return !fs::is_empty(directory, missing);
  for (const auto& entry : fs::directory_iterator(directory, missing)) {
    const auto name = entry.path().filename();
    if (name != RunLock::kFile && name != RunFiles::data && name != kTokenizerFile &&
        name != kSubwordFile && name != RunFiles::replaced && !is_fragment(name)) {
      return true;
    }
  }
  return false;
}

/// True if there is a run to overwrite. Throws InputError if there is one and `overwrite` is unset.
bool check_is_free(const fs::path& directory, bool overwrite) {
  if (!is_taken(directory)) return false;
  if (overwrite) return true;
  throw InputError(fmt::format(
      "{} exists and is not empty: choose another directory, or overwrite it", directory.string()));
}

void move_old_run(const fs::path& directory) {
  const auto replaced = directory / RunFiles::replaced;
  // If a move was interrupted before, the recipe may already be in `replaced`.
  if (!RunDirectory::exists(directory) && !RunDirectory::exists(replaced)) {
    throw InputError(fmt::format("{}: not overwritten, since it is not a run: it has no {}",
                                 directory.string(), RunFiles::recipe));
  }
  // An unfinished run does not replace the finished one that it was to overwrite.
  const bool finished = fs::exists(directory / RunFiles::summary);
  if (finished) {
    if (fs::exists(replaced / RunFiles::summary)) fs::remove_all(replaced);
    fs::create_directories(replaced);
  }
  for (const auto* name : kFilesOfRun) {
    if (!fs::exists(directory / name)) continue;
    if (finished) {
      fs::remove_all(replaced / name);
      fs::rename(directory / name, replaced / name);
    } else {
      fs::remove_all(directory / name);
    }
  }
}

/// Weights of a run and the file they were read from.
struct FoundWeights {
  std::map<std::string, torch::Tensor> tensors;
  fs::path path;
};

FoundWeights read_weights(const RunDirectory& run, Weights weights) {
  const auto directory = run.path().string();
  if (weights == Weights::last) {
    if (auto found = run.latest_checkpoint()) {
      return {std::move(found->checkpoint.weights), found->path};
    }
    throw InputError(fmt::format("{}: no checkpoint has been saved yet", directory));
  }
  const auto file = run.file(RunFiles::model);
  if (!fs::exists(file) && !fs::exists(run.file(RunFiles::summary))) {
    throw InputError(
        fmt::format("{}: no best weights: training stopped before the first evaluation; resume the "
                    "run, or load "
                    "Weights::last",
                    directory));
  }
  auto content = load_safetensors(file);
  const auto checksum = content.metadata.find(kChecksum);
  if (checksum != content.metadata.end() && checksum->second != checksum_of(content.tensors)) {
    throw InputError(fmt::format("{}: damaged: checksum {}, expected {}", file.string(),
                                 checksum_of(content.tensors), checksum->second));
  }
  return {std::move(content.tensors), file};
}

}  // namespace

RunDirectory::RunDirectory(fs::path path, std::unique_ptr<RunLock> lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

RunDirectory::~RunDirectory() = default;
RunDirectory::RunDirectory(RunDirectory&&) noexcept = default;
RunDirectory& RunDirectory::operator=(RunDirectory&&) noexcept = default;

RunDirectory RunDirectory::open(const fs::path& path) {
  if (!exists(path)) {
    throw InputError(
        fmt::format("{}: not a run directory: it has no {}", path.string(), RunFiles::recipe));
  }
  return {path, nullptr};
}

RunDirectory RunDirectory::create(const fs::path& path, const RunContent& content, bool overwrite) {
  check_is_free(path, overwrite);
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path)) {
    throw InputError(fmt::format("{} cannot be created: {}", path.string(),
                                 error ? error.message() : "a file of that name exists"));
  }
  RunDirectory run(path, std::make_unique<RunLock>(path));
  // Again, since another process may have created a run in between.
  if (check_is_free(path, overwrite)) move_old_run(path);
  remove_fragments(path);
  const Json data{{"checksum", content.record.data_checksum},
                  {"classes", content.record.classes},
                  {"fixed", content.record.fixed}};
  replace_file(run.file(RunFiles::data), data.dump(2) + "\n");
  for (const auto& [name, text] : content.files) replace_file(path / name, text);
  run.save_recipe(content.recipe);  // last, since it makes the directory a run
  return run;
}

RunDirectory RunDirectory::resume(const fs::path& path, const RunContent& content) {
  open(path);                                               // throws if it is not a run
  RunDirectory run(path, std::make_unique<RunLock>(path));  // before checking, so nothing changes
  const auto record = run.record();
  auto differences = differences_of(record.fixed, content.record.fixed);
  compare("checksum of the data", record.data_checksum, content.record.data_checksum, differences);
  compare("classes", fmt::format("{}", fmt::join(record.classes, ", ")),
          fmt::format("{}", fmt::join(content.record.classes, ", ")), differences);
  for (const auto& [name, text] : content.files) {
    if (read_bytes(path / name) != text)
      differences.push_back(fmt::format("{}: another vocabulary than in the run", name));
  }
  if (fs::exists(run.file(RunFiles::summary)) &&
      CheckpointStore(run.file(RunFiles::checkpoints)).latest().empty()) {
    throw InputError(fmt::format("{}: the run is finished and has no checkpoints to resume from",
                                 path.string()));
  }
  if (!differences.empty()) {
    throw InputError(fmt::format("{}: the run was created with other values: {}", path.string(),
                                 fmt::join(differences, "; ")));
  }
  remove_fragments(path);
  return run;
}

bool RunDirectory::exists(const fs::path& path) {
  return fs::is_regular_file(path / RunFiles::recipe);
}

bool RunDirectory::owns(const fs::path& path, const fs::path& file) {
  const auto inside = fs::weakly_canonical(fs::absolute(file))
                          .lexically_relative(fs::weakly_canonical(fs::absolute(path)));
  const auto name = inside.begin()->string();  // ".." if it is elsewhere
  return name == RunLock::kFile || name == RunFiles::replaced || is_fragment(name) ||
         std::ranges::any_of(kFilesOfRun, [&](const char* own) { return name == own; });
}

RunRecord RunDirectory::record() const {
  const auto path = file(RunFiles::data);
  const auto text = read_bytes(path);
  try {
    const auto json = Json::parse(text);
    return {json.at("checksum"), json.at("classes"), json.at("fixed")};
  } catch (const Json::exception& error) {
    throw InputError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

Recipe RunDirectory::recipe() const {
  const auto path = file(RunFiles::recipe);
  const auto fixed = record().fixed;
  if (const auto kind = fixed.find("kind"); kind != fixed.end() && kind->second == kCustomKind) {
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
  return recipe;
}

void RunDirectory::save_recipe(const std::string& toml) const {
  replace_file(file(RunFiles::recipe), toml);
}

std::optional<LoadedCheckpoint> RunDirectory::latest_checkpoint() const {
  return CheckpointStore(file(RunFiles::checkpoints)).load_latest();
}

void RunDirectory::load_weights(torch::nn::Module& module, Weights weights) const {
  const auto found = read_weights(*this, weights);
  with_source(found.path.string(), [&] { load_state_dict(module, found.tensors); });
}

Run RunDirectory::load(Weights weights) const {
  auto recipe = this->recipe();
  std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(path_);
  auto record = this->record();
  auto model = make_model(recipe, tokenizer->size(), record.classes.size());
  load_weights(module_of(model), weights);
  module_of(model).eval();
  return {.recipe = std::move(recipe),
          .tokenizer = std::move(tokenizer),
          .classes = std::move(record.classes),
          .data_checksum = std::move(record.data_checksum),
          .model = std::move(model)};
}

bool RunDirectory::is_finished(const TrainerState& state) const {
  const auto path = file(RunFiles::summary);
  if (!fs::exists(path)) return false;
  const auto summary = Json::parse(read_bytes(path), nullptr, /*allow_exceptions=*/false);
  return summary.is_object() && summary.contains("steps") && summary["steps"] == state.step;
}

void RunDirectory::finish(const std::string& task, const torch::nn::Module& module,
                          const TrainResult& result) const {
  const auto& state = result.state;
  const auto& best = state.best.value();
  Json summary;
  if (!task.empty()) summary["task"] = task;
  summary.update({{"parameters", parameter_count(module)},
                  {"steps", state.step},
                  {"best_step", state.best_step},
                  {"seconds", state.seconds()},
                  {"tokens_per_second", result.tokens_per_second},
                  {"train_loss", state.train_loss},
                  {"val_loss", best.loss}});
  if (best.accuracy) summary["val_accuracy"] = *best.accuracy;
  if (state.skipped_steps > 0) summary["skipped_steps"] = state.skipped_steps;
  replace_file(file(RunFiles::summary), summary.dump(2) + "\n");
  fs::remove_all(file(RunFiles::replaced));
}

RunCheckpointSink::RunCheckpointSink(const fs::path& directory)
    : directory_(directory), checkpoints_(directory / RunFiles::checkpoints) {}

void RunCheckpointSink::save_best(const std::map<std::string, torch::Tensor>& weights) {
  save_safetensors(
      directory_ / RunFiles::model,
      {.tensors = weights, .metadata = {{"format", "pt"}, {kChecksum, checksum_of(weights)}}});
}

void RunCheckpointSink::save(const Checkpoint& checkpoint) {
  checkpoints_.save(checkpoint);
}

std::string RunCheckpointSink::latest_path() const {
  return checkpoints_.latest().string();
}

}  // namespace attend::train
