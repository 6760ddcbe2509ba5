#include "attend/train/run.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/io/subword_tokenizer.h"
#include "attend/io/tokenizers.h"
#include "attend/nn/parameter_count.h"
#include "attend/train/embedding_files.h"
#include "io/files.h"
#include "train/checksum.h"
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

/// What a finished run holds, in the order in which it goes to `replaced`: with its recipe it would
/// stop being a run, and the summary tells that all of it has arrived there.
constexpr std::array kFilesOfRun{
    RunFiles::checkpoints,  RunFiles::tensorboard,  RunFiles::metrics, EmbeddingFiles::table,
    EmbeddingFiles::tokens, EmbeddingFiles::config, RunFiles::model,   kTokenizerFile,
    kSubwordFile,           RunFiles::data,         RunFiles::recipe,  RunFiles::summary};

constexpr const char* kChecksum = "crc32c";  // in the metadata of the weights

/// Of all elements, in the order of the names.
std::string checksum_of(const std::map<std::string, torch::Tensor>& tensors) {
  uint32_t sum = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = tensor.detach().cpu().contiguous();
    sum = crc32c({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}, sum);
  }
  return fmt::format("{:08x}", sum);
}

/// What a run was begun with, for good.
struct DataRecord {
  std::string checksum;
  std::vector<std::string> classes;
  std::map<std::string, std::string> fixed;  // see fixed_values()
};

/// Whether a value has to be the same when a run is resumed; the text file may have moved.
bool is_fixed(const RecipeField& field) {
  const std::string_view section = field.section;
  const std::string_view key = field.key;
  return section != "training" ? key != "text" : key == "optimizer" || key == "seed";
}

/// What of a recipe has to be the same when a run is resumed, by its key.
std::map<std::string, std::string> fixed_values(const Recipe& recipe) {
  std::map<std::string, std::string> values{
      {"kind of model", std::string(model_kind(recipe.model))}};
  for (const auto& field : recipe_fields()) {
    if (is_fixed(field)) values[field.key] = value_text(field, recipe);
  }
  return values;
}

/// Adds a line to `differences` if a run was begun with something else.
void compare(const std::string& what, const std::string& run, const std::string& now,
             std::vector<std::string>& differences) {
  if (run != now)
    differences.push_back(fmt::format("{}: '{}' in the run, now '{}'", what, run, now));
}

std::vector<std::string> differences_of(const std::map<std::string, std::string>& run,
                                        const std::map<std::string, std::string>& now) {
  std::vector<std::string> differences;
  for (const auto& [key, value] : now) {
    const auto before = run.find(key);
    compare(key, before == run.end() ? "" : before->second, value, differences);
  }
  return differences;
}

DataRecord read_data_record(const fs::path& directory) {
  const auto file = directory / RunFiles::data;
  const auto text = read_bytes(file);
  try {
    const auto json = Json::parse(text);
    return {json.at("checksum"), json.at("classes"), json.at("fixed")};
  } catch (const Json::exception& error) {
    throw InputError(fmt::format("{}: {}", file.string(), error.what()));
  }
}

/// Whether `file` is a temporary file that a killed process has left of a file of a run.
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

/// Whether a directory holds more than what a process leaves there that was killed in `create_run`.
bool is_taken(const fs::path& directory) {
  std::error_code missing;
  if (!fs::exists(directory, missing)) return false;
  // Such a process has made the lock before all else: without it, files of the same names are
  // somebody's own.
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

/// Whether there is something to overwrite. Throws InputError if there is, unless it may be.
bool check_is_free(const fs::path& directory, bool overwrite) {
  if (!is_taken(directory)) return false;
  if (overwrite) return true;
  throw InputError(
      fmt::format("{} exists; choose another directory, or overwrite it", directory.string()));
}

void move_old_run(const fs::path& directory) {
  const auto replaced = directory / RunFiles::replaced;
  // Where this was cut short before, the recipe may be there already.
  if (!fs::is_regular_file(directory / RunFiles::recipe) &&
      !fs::is_regular_file(replaced / RunFiles::recipe)) {
    throw InputError(fmt::format("{} holds no {}, so it is not a run: it is left alone",
                                 directory.string(), RunFiles::recipe));
  }
  // A run that is not finished does not push out the finished one that it was to replace.
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

void check_is_run(const fs::path& directory) {
  if (fs::is_regular_file(directory / RunFiles::recipe)) return;
  throw InputError(fmt::format("{}: no such run directory: there is no {} in it",
                               directory.string(), RunFiles::recipe));
}

/// The weights of a run, and where they were found.
struct FoundWeights {
  std::map<std::string, torch::Tensor> tensors;
  fs::path path;
};

FoundWeights read_weights(const fs::path& directory, Weights weights) {
  if (weights == Weights::last) {
    if (auto found = latest_checkpoint(directory)) {
      return {std::move(found->checkpoint.weights), found->path};
    }
    throw InputError(fmt::format("{}: there is no checkpoint yet", directory.string()));
  }
  const auto file = directory / RunFiles::model;
  if (!fs::exists(file) && !fs::exists(directory / RunFiles::summary)) {
    throw InputError(fmt::format(
        "{}: no evaluation has been reached yet: go on with attend train --resume {}, or take the "
        "last weights, --weights last",
        directory.string(), directory.string()));
  }
  auto content = load_safetensors(file);
  const auto checksum = content.metadata.find(kChecksum);
  if (checksum != content.metadata.end() && checksum->second != checksum_of(content.tensors)) {
    throw InputError(
        fmt::format("{}: damaged: the weights are not those that were written", file.string()));
  }
  return {std::move(content.tensors), file};
}

}  // namespace

bool is_file_of_run(const fs::path& run, const fs::path& file) {
  const auto inside = fs::weakly_canonical(fs::absolute(file))
                          .lexically_relative(fs::weakly_canonical(fs::absolute(run)));
  const auto name = inside.begin()->string();  // ".." if it lies elsewhere
  return name == RunLock::kFile || name == RunFiles::replaced || is_fragment(name) ||
         std::ranges::any_of(kFilesOfRun, [&](const char* own) { return name == own; });
}

std::shared_ptr<RunLock> create_run(const fs::path& directory, const Recipe& recipe,
                                    const Task& task, bool overwrite) {
  check_is_free(directory, overwrite);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error || !fs::is_directory(directory)) {
    throw InputError(fmt::format("{} cannot be made: {}", directory.string(),
                                 error ? error.message() : "a file of that name exists"));
  }
  auto lock = std::make_shared<RunLock>(directory);
  // Again, since another process may have made a run there in between.
  if (check_is_free(directory, overwrite)) move_old_run(directory);
  remove_fragments(directory);
  const Json data{{"checksum", task.data_checksum()},
                  {"classes", task.classes()},
                  {"fixed", fixed_values(recipe)}};
  replace_file(directory / RunFiles::data, data.dump(2) + "\n");
  for (const auto& [name, content] : task.tokenizer().files()) {
    replace_file(directory / name, content);
  }
  keep_recipe(directory, recipe);  // what makes it a run is last
  return lock;
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

void finish_run(const fs::path& directory, const Recipe& recipe, const Model& model,
                const TrainResult& outcome) {
  const auto& standing = outcome.state;
  const auto& best = standing.best.value();
  Json summary{{"task", recipe.task},
               {"parameters", parameter_count(module_of(model))},
               {"steps", standing.step},
               {"best_step", standing.best_step},
               {"seconds", standing.seconds()},
               {"tokens_per_second", outcome.tokens_per_second},
               {"train_loss", standing.train_loss},
               {"val_loss", best.loss}};
  if (best.accuracy) summary["accuracy"] = *best.accuracy;
  if (standing.skipped_steps > 0) summary["skipped_steps"] = standing.skipped_steps;
  replace_file(directory / RunFiles::summary, summary.dump(2) + "\n");
  fs::remove_all(directory / RunFiles::replaced);
}

Run load_run(const fs::path& directory, Weights weights) {
  auto recipe = recipe_of_run(directory);
  std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(directory);
  auto data = read_data_record(directory);
  const auto found = read_weights(directory, weights);
  auto model = make_model(recipe, tokenizer->size(), data.classes.size());
  with_source(found.path.string(), [&] { load_state_dict(module_of(model), found.tensors); });
  module_of(model).eval();
  return {.recipe = std::move(recipe),
          .tokenizer = std::move(tokenizer),
          .classes = std::move(data.classes),
          .data_checksum = std::move(data.checksum),
          .model = std::move(model)};
}

Recipe recipe_of_run(const fs::path& directory) {
  check_is_run(directory);
  auto recipe = read_recipe(directory / RunFiles::recipe, Recipe{});
  const auto fixed = read_data_record(directory).fixed;
  with_source((directory / RunFiles::recipe).string(), [&] {
    check_recipe(recipe);
    const auto changed = differences_of(fixed, fixed_values(recipe));
    if (changed.empty()) return;
    throw InputError(
        fmt::format("was changed after the run was begun: {}", fmt::join(changed, "; ")));
  });
  return recipe;
}

std::shared_ptr<RunLock> reopen_run(const fs::path& directory, const Recipe& recipe,
                                    const Task& task) {
  check_is_run(directory);
  auto lock = std::make_shared<RunLock>(directory);  // first, so that what is checked stays
  const auto record = read_data_record(directory);
  auto differences = differences_of(record.fixed, fixed_values(recipe));
  compare("checksum of the data", record.checksum, task.data_checksum(), differences);
  compare("classes", fmt::format("{}", fmt::join(record.classes, ", ")),
          fmt::format("{}", fmt::join(task.classes(), ", ")), differences);
  const auto tokenizer = load_tokenizer(directory);
  if (tokenizer->files() != task.tokenizer().files()) {
    differences.push_back(fmt::format("vocabulary: {} tokens in the run, now {}, or other ones",
                                      tokenizer->size(), task.tokenizer().size()));
  }
  if (fs::exists(directory / RunFiles::summary) &&
      CheckpointStore(directory / RunFiles::checkpoints).latest().empty()) {
    throw InputError(
        fmt::format("{} is finished, and its checkpoints are gone: there is nothing to "
                    "go on from",
                    directory.string()));
  }
  if (!differences.empty()) {
    throw InputError(fmt::format("{} was begun with something else: {}", directory.string(),
                                 fmt::join(differences, "; ")));
  }
  remove_fragments(directory);
  return lock;
}

void keep_recipe(const fs::path& directory, const Recipe& recipe) {
  replace_file(directory / RunFiles::recipe, to_toml(recipe));
}

bool is_finished(const fs::path& directory, const TrainerState& standing) {
  const auto file = directory / RunFiles::summary;
  if (!fs::exists(file)) return false;
  const auto summary = Json::parse(read_bytes(file), nullptr, /*allow_exceptions=*/false);
  return summary.is_object() && summary.contains("steps") && summary["steps"] == standing.step;
}

std::optional<LoadedCheckpoint> latest_checkpoint(const fs::path& directory) {
  return CheckpointStore(directory / RunFiles::checkpoints).load_latest();
}

std::unique_ptr<Task> task_of(const Run& run) {
  auto task = make_task(run.recipe);
  if (task->tokenizer().files() != run.tokenizer->files() || task->classes() != run.classes) {
    throw InputError(
        fmt::format("{}: its tokens are not those that the run has learned: {} found, "
                    "{} expected, or other ones",
                    run.recipe.text.empty() ? run.recipe.task : run.recipe.text,
                    task->tokenizer().size(), run.tokenizer->size()));
  }
  if (task->data_checksum() != run.data_checksum) {
    throw InputError(
        fmt::format("{}: has changed since it was learned (checksum {}, now {}), so that what was "
                    "held out of it cannot be told",
                    run.recipe.text, run.data_checksum, task->data_checksum()));
  }
  return task;
}

}  // namespace attend::train
