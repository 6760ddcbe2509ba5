// The content of a run of a model of this library: what is recorded, and loading it.
#include "attend/train/run.h"

#include "attend/input_error.h"
#include "attend/train/run_directory.h"
#include "train/run_content.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attend::train {
namespace {

/// True if a value must be the same when a run is resumed; the text file may have moved.
bool is_fixed(const RecipeField& field) {
  const std::string_view section = field.section;
  const std::string_view key = field.key;
  return section != "training" ? key != "text" : key == "optimizer" || key == "seed";
}

}  // namespace

std::map<std::string, std::string> fixed_values(const Recipe& recipe) {
  std::map<std::string, std::string> values{{"kind", std::string(model_kind(recipe.model))}};
  for (const auto& field : recipe_fields()) {
    if (is_fixed(field)) values[field.key] = value_text(field, recipe);
  }
  return values;
}

RunContent run_content(const Recipe& recipe, const Task& task) {
  return {.recipe = to_toml(recipe),
          .record = {.data_checksum = task.data_checksum(),
                     .classes = task.classes(),
                     .fixed = fixed_values(recipe)},
          .files = task.tokenizer().files()};
}

RunContent run_content(const TrainingConfig& config,
                       const std::map<std::string, std::string>& values) {
  Recipe recipe;
  recipe.training = config;
  std::map<std::string, std::string> fixed{{"kind", kCustomKind}};
  for (const auto& field : recipe_fields()) {
    if (std::string_view(field.section) == "training" && is_fixed(field))
      fixed[field.key] = value_text(field, recipe);
  }
  for (const auto& [key, value] : values) fixed["values." + key] = value;
  return {.recipe = to_toml(config, values),
          .record = {.data_checksum = {}, .classes = {}, .fixed = std::move(fixed)}};
}

std::unique_ptr<Task> Run::make_task() const {
  auto task = train::make_task(recipe);
  const auto& data = recipe.text.empty() ? recipe.task : recipe.text;
  if (task->tokenizer().files() != tokenizer->files()) {
    throw InputError(fmt::format("{}: vocabulary differs from the run's ({} tokens, expected {})",
                                 data, task->tokenizer().size(), tokenizer->size()));
  }
  const auto found_classes = task->classes();
  if (found_classes != classes) {
    throw InputError(fmt::format("{}: classes differ from the run's: found {}, expected {}", data,
                                 fmt::join(found_classes, ", "), fmt::join(classes, ", ")));
  }
  if (task->data_checksum() != data_checksum) {
    throw InputError(
        fmt::format("{}: changed since training (checksum {}, expected {}), so the validation data "
                    "cannot be told from the training data",
                    data, task->data_checksum(), data_checksum));
  }
  return task;
}

}  // namespace attend::train
