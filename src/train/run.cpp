#include "attend/train/run.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/safetensors.h"
#include "attend/nn/parameter_count.h"
#include "attend/train/checksum.h"
#include "attend/train/embedding_files.h"
#include "attend/train/subword_tokenizer.h"
#include "attend/train/tokenizers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

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

/// What is known of a run's data besides its recipe.
struct DataRecord {
  std::string checksum;
  std::vector<std::string> classes;
};

/// Calls a function that reads a file of a run; its InputError names the file.
template <typename Function>
auto reading(const fs::path& file, const Function& function) {
  try {
    return function();
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", file.string(), error.what()));
  } catch (const Json::exception& error) {
    throw InputError(fmt::format("{}: {}", file.string(), error.what()));
  }
}

DataRecord read_data_record(const fs::path& directory) {
  const auto file = directory / RunFiles::data;
  const auto text = read_bytes(file);
  return reading(file, [&] {
    const auto json = Json::parse(text);
    return DataRecord{json.at("checksum"), json.at("classes")};
  });
}

/// Whether it is what a process leaves of a run's file that was ended while it wrote it.
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

/// Whether there is more in a directory than what a process leaves that was ended while it made it.
bool is_taken(const fs::path& directory) {
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(directory, missing)) {
    const auto name = entry.path().filename();
    if (name != RunLock::kFile && name != RunFiles::data && name != kTokenizerFile &&
        name != kSubwordFile && name != RunFiles::replaced && !is_fragment(name)) {
      return true;
    }
  }
  return fs::is_regular_file(directory, missing);
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
      return {std::move(found->snapshot.weights), found->path};
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

/// Of these values no run can have another one after it was begun; the text file may have moved.
bool is_fixed(const RecipeField& field) {
  const std::string_view section = field.section;
  const std::string_view key = field.key;
  return section != "training" ? key != "text" : key == "optimizer" || key == "seed";
}

}  // namespace

bool is_file_of_run(const fs::path& run, const fs::path& file) {
  const auto inside = fs::weakly_canonical(fs::absolute(file))
                          .lexically_relative(fs::weakly_canonical(fs::absolute(run)));
  const auto name = inside.begin()->string();  // ".." if it lies elsewhere
  return name == RunLock::kFile || name == RunFiles::replaced || is_fragment(name) ||
         std::ranges::any_of(kFilesOfRun, [&](const char* own) { return name == own; });
}

std::unique_ptr<RunLock> create_run(const fs::path& directory, const Recipe& recipe,
                                    const Task& task, bool overwrite) {
  const bool taken = is_taken(directory);
  if (taken && !overwrite) {
    throw InputError(
        fmt::format("{} exists; choose another --out, or give --overwrite", directory.string()));
  }
  std::error_code error;
  fs::create_directories(directory, error);
  if (error || !fs::is_directory(directory)) {
    throw InputError(fmt::format("{} cannot be made: {}", directory.string(),
                                 error ? error.message() : "a file of that name exists"));
  }
  auto lock = std::make_unique<RunLock>(directory);
  if (taken) move_old_run(directory);
  remove_fragments(directory);
  const Json data{{"checksum", task.data_checksum()}, {"classes", task.classes()}};
  replace_file(directory / RunFiles::data, data.dump(2) + "\n");
  for (const auto& [name, content] : task.tokenizer().files()) {
    replace_file(directory / name, content);
  }
  keep_recipe(directory, recipe);  // what makes it a run is last
  return lock;
}

RunKeeper::RunKeeper(const fs::path& directory)
    : directory_(directory), checkpoints_(directory / RunFiles::checkpoints) {}

void RunKeeper::keep_best(const std::map<std::string, torch::Tensor>& weights) {
  save_safetensors(
      directory_ / RunFiles::model,
      {.tensors = weights, .metadata = {{"format", "pt"}, {kChecksum, checksum_of(weights)}}});
}

void RunKeeper::keep(const Snapshot& snapshot) {
  checkpoints_.save(snapshot);
}

std::string RunKeeper::latest() const {
  return checkpoints_.latest().string();
}

void finish_run(const fs::path& directory, const Recipe& recipe, const Model& model,
                const Outcome& outcome) {
  const auto& standing = outcome.standing;
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
  if (standing.skipped > 0) summary["skipped_steps"] = standing.skipped;
  replace_file(directory / RunFiles::summary, summary.dump(2) + "\n");
  fs::remove_all(directory / RunFiles::replaced);
}

Run load_run(const fs::path& directory, Weights weights) {
  auto recipe = recipe_of_run(directory);
  std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(directory);
  auto data = read_data_record(directory);
  const auto found = read_weights(directory, weights);
  auto model = make_model(recipe, tokenizer->size(), data.classes.size());
  reading(found.path, [&] { load_state_dict(module_of(model), found.tensors); });
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
  reading(directory / RunFiles::recipe, [&] { check_recipe(recipe); });
  return recipe;
}

std::unique_ptr<RunLock> reopen_run(const fs::path& directory, const Recipe& recipe,
                                    const Task& task) {
  const auto begun = recipe_of_run(directory);
  std::vector<std::string> differences;
  const auto compare = [&](const std::string& what, const std::string& run,
                           const std::string& now) {
    if (run != now)
      differences.push_back(fmt::format("{}: '{}' in the run, now '{}'", what, run, now));
  };
  compare("kind of model", std::string(model_kind(begun.model)),
          std::string(model_kind(recipe.model)));
  for (const auto& field : recipe_fields()) {
    if (is_fixed(field)) compare(field.key, value_text(field, begun), value_text(field, recipe));
  }
  const auto record = read_data_record(directory);
  compare("checksum of the data", record.checksum, task.data_checksum());
  compare("classes", fmt::format("{}", fmt::join(record.classes, ", ")),
          fmt::format("{}", fmt::join(task.classes(), ", ")));
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
  auto lock = std::make_unique<RunLock>(directory);
  remove_fragments(directory);
  return lock;
}

void keep_recipe(const fs::path& directory, const Recipe& recipe) {
  replace_file(directory / RunFiles::recipe, to_toml(recipe));
}

bool is_finished(const fs::path& directory, const Standing& standing) {
  const auto file = directory / RunFiles::summary;
  if (!fs::exists(file)) return false;
  const auto summary = Json::parse(read_bytes(file), nullptr, /*allow_exceptions=*/false);
  return summary.is_object() && summary.contains("steps") && summary["steps"] == standing.step;
}

std::optional<CheckpointStore::Found> latest_checkpoint(const fs::path& directory) {
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
