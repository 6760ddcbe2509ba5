#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/models/flops.h"
#include "attend/train/run.h"
#include "findings.h"
#include "number_text.h"
#include "recipe_flags.h"
#include "tensor_table.h"

#include <fmt/format.h>

namespace attend::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using train::RecipeField;

/// All values of a recipe by section and key.
ordered_json config_json(train::Recipe recipe) {
  ordered_json config;
  config["model"]["kind"] = std::string(train::model_kind(recipe.model));
  for (const auto& field : train::recipe_fields()) {
    const std::string section = field.section;
    auto& target = section.empty() ? config : config[section];
    const auto set = [&](auto value) {
      using T = std::remove_pointer_t<decltype(value)>;
      if constexpr (std::is_enum_v<T>)
        target[field.key] = std::string(to_string(*value));
      else if constexpr (!std::is_same_v<decltype(value), std::monostate>)
        target[field.key] = *value;
    };
    std::visit(set, field.ref(recipe));
  }
  return config;
}

/// The values that are not the defaults of the recipe's task.
std::vector<const RecipeField*> changed_fields(const train::Recipe& recipe) {
  const auto& defaults = train::find_task(recipe.task).defaults;
  std::vector<const RecipeField*> changed;
  for (const auto& field : train::recipe_fields()) {
    if (std::string_view(field.key) == "text") continue;  // it has no default
    if (train::value_text(field, recipe) != train::value_text(field, defaults))
      changed.push_back(&field);
  }
  return changed;
}

void add_config(const train::Recipe& recipe, Findings& found) {
  found.head += report_line("task", recipe.task);
  if (!recipe.text.empty()) found.head += report_line("text", printable(recipe.text));
  found.head += report_line(
      "model",
      fmt::format("{}, context {} tokens", train::model_kind(recipe.model), recipe.context()));
  const auto& defaults = train::find_task(recipe.task).defaults;
  auto changed = ordered_json::array();
  for (const auto* field : changed_fields(recipe)) {
    found.head += report_line(
        changed.empty() ? "changed" : "",
        fmt::format("{} = {} (default {})", field->key, train::value_text(*field, recipe),
                    train::value_text(*field, defaults)));
    changed.push_back(field->key);
  }
  if (changed.empty()) found.head += report_line("changed", "nothing: the defaults of the task");
  found.json["task"] = recipe.task;
  found.json["config"] = config_json(recipe);
  found.json["changed"] = std::move(changed);
}

ordered_json read_summary(const fs::path& path) {
  try {
    auto summary = ordered_json::parse(read_text(path));
    if (summary.is_object()) return summary;
  } catch (const nlohmann::json::exception&) {
  }
  throw InputError(path.string() + ": not a JSON object");
}

/// A number of the summary, formatted; nothing if it is not there.
std::string summary_text(const ordered_json& summary, const char* key, const char* format) {
  const auto value = summary.find(key);
  if (value == summary.end() || !value->is_number()) return {};
  return fmt::format(fmt::runtime(format), value->get<double>());
}

void add_summary(const fs::path& path, Findings& found) {
  const auto summary = read_summary(path);
  found.json["summary"] = summary;
  found.head +=
      report_line("trained", summary_text(summary, "steps", "{} steps") +
                                 summary_text(summary, "seconds", ", {:.1f} s") +
                                 summary_text(summary, "tokens_per_second", ", {:.0f} tokens/s"));
  found.head += report_line("loss", summary_text(summary, "train_loss", "training {:.4f}, ") +
                                        summary_text(summary, "val_loss", "held-out {:.4f} ") +
                                        "nats a token");
  const auto accuracy = summary.find("accuracy");
  if (accuracy != summary.end() && accuracy->is_number()) {
    found.head += report_line("accuracy", fmt::format("{:.1f} %", accuracy->get<double>() * 100));
  }
}

void add_model(const fs::path& directory, Findings& found) {
  auto run = train::load_run(directory);
  const int64_t context = run.recipe.context();
  const double flops =
      std::visit([&](auto& model) { return flops_per_token(model, context); }, run.model);
  found.tensors = tensors_of(train::module_of(run.model));
  found.tail += report_line(
      "FLOPs", fmt::format("{} a token, forward, in a sequence of {} tokens\n"
                           "            (matrix products only, attention with each position; "
                           "1 multiply-add = 2 FLOPs)",
                           count_text(flops), context));
  found.json["vocabulary"] = run.tokenizer->size();
  found.json["context"] = context;
  found.json["flops_per_token"] = flops;
}

}  // namespace

std::string report_line(const std::string& label, const std::string& text) {
  return fmt::format("{:<10}  {}\n", label, text);
}

Findings inspect_run(const fs::path& directory) {
  if (!fs::exists(directory / train::RunFiles::recipe)) {
    throw InputError(fmt::format("{}: expected a run directory, found none: there is no {} in it",
                                 directory.string(), train::RunFiles::recipe));
  }
  const auto recipe = train::read_recipe(directory / train::RunFiles::recipe, train::Recipe{});
  const auto summary = directory / train::RunFiles::summary;
  const bool finished = fs::exists(summary);
  Findings found;
  found.head = report_line("kind", finished ? "run" : "run, not finished");
  found.json = {{"kind", "run"}, {"path", directory.string()}, {"finished", finished}};
  add_config(recipe, found);
  if (!finished) return found;
  add_summary(summary, found);
  add_model(directory, found);
  return found;
}

}  // namespace attend::app
