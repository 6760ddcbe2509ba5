// Reads and writes recipe files.
#include "attend/input_error.h"
#include "attend/train/recipe.h"
#include "train/recipe_fields.h"
#include "train/recipe_toml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attend::train {
namespace {

constexpr const char* kValues = "values";  // table of `CustomConfig::values`

/// Changes the recipe's kind of model to the kind in the file, if the file contains a kind. Keeps
/// the values that all kinds of models have.
void choose_kind(const toml::table& table, const std::string& file, Recipe& recipe) {
  const auto node = table.at_path(kKindKey);
  if (!node) return;
  const auto name = node.value_exact<std::string>().value_or("");
  if (name == model_kind(recipe.model)) return;
  for (auto config : {ModelConfig(LanguageModelConfig()), ModelConfig(SequenceClassifierConfig()),
                      ModelConfig(Seq2SeqConfig())}) {
    if (name != model_kind(config)) continue;
    const auto previous = recipe;
    recipe.model = config;
    recipe.stack() = previous.stack();
    recipe.max_seq_len() = previous.max_seq_len();
    return;
  }
  throw InputError(fmt::format("{}: {}: expected one of {}, found '{}'", file, kKindKey,
                               fmt::join(kModelKinds, ", "), name));
}

}  // namespace

Recipe read_recipe(const std::filesystem::path& path, const Recipe& base) {
  const auto table = parse_recipe(path);
  Recipe recipe = base;
  choose_kind(table, path.string(), recipe);
  for (const auto& field : recipe_fields()) assign_field(field, table, path.string(), recipe);
  return recipe;
}

Recipe read_task_of_recipe(const std::filesystem::path& path, const Recipe& base) {
  const auto table = parse_recipe(path);
  Recipe recipe = base;
  for (const auto& field : recipe_fields()) {
    if (field.section[0] == '\0') assign_field(field, table, path.string(), recipe);
  }
  return recipe;
}

CustomConfig read_custom_config(const std::filesystem::path& path) {
  auto table = parse_toml(path);
  CustomConfig config;
  if (const auto* values = table[kValues].as_table()) {
    for (const auto& [key, value] : *values) {
      const auto name = std::string(key.str());
      assign(value, fmt::format("{}: {}.{}", path.string(), kValues, name), &config.values[name]);
    }
    table.erase(kValues);
  }
  check_keys(table, path.string());
  Recipe recipe;
  for (const auto& field : recipe_fields()) assign_field(field, table, path.string(), recipe);
  config.training = recipe.training;
  return config;
}

std::string to_toml(const Recipe& recipe) {
  toml::table table;
  table.insert("model", toml::table{{"kind", std::string(model_kind(recipe.model))}});
  for (const auto& field : recipe_fields()) insert_field(field, recipe, table);
  return to_text(table);
}

std::string to_toml(const TrainingConfig& config,
                    const std::map<std::string, std::string>& values) {
  Recipe recipe;
  recipe.training = config;
  toml::table table;
  for (const auto& field : recipe_fields()) {
    if (std::string_view(field.section) == "training") insert_field(field, recipe, table);
  }
  auto& described = *table.insert(kValues, toml::table{}).first->second.as_table();
  for (const auto& [key, value] : values) described.insert(key, value);
  return to_text(table);
}

}  // namespace attend::train
