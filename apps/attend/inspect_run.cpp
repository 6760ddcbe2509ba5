#include "inspect_run.h"

#include "attend/input_error.h"
#include "attend/models/flops.h"
#include "attend/train/run_directory.h"
#include "io/files.h"
#include "io/utf8.h"
#include "number_text.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

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

void add_config(const train::Recipe& recipe, InspectReport& found) {
  found.head += report_line("task", recipe.task);
  if (!recipe.text.empty()) found.head += report_line("text", printable(recipe.text));
  found.head += report_line(
      "model",
      fmt::format("{}, context {} tokens", train::model_kind(recipe.model), recipe.max_seq_len()));
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

/// What the run has reached, in the words of training.
void add_summary(const fs::path& path, InspectReport& found) {
  try {
    const auto summary = ordered_json::parse(read_text(path));
    const auto number = [&](const char* key) {
      const auto& value = summary.at(key);
      return value.is_null() ? NAN : value.get<double>();  // JSON has no NaN
    };
    found.head +=
        report_line("trained", fmt::format("{} steps, {:.1f} s, {:.0f} tokens/s", number("steps"),
                                           number("seconds"), number("tokens_per_second")));
    found.head +=
        report_line("train loss", fmt::format("{:.4f} nats a target", number("train_loss")));
    found.head +=
        report_line("val loss", fmt::format("{:.4f} nats a target, on held-out data, after step {}",
                                            number("val_loss"), number("best_step")));
    if (summary.contains("accuracy")) {
      found.head += report_line(
          "accuracy", fmt::format("{:.1f} % of held-out answers", number("accuracy") * 100));
    }
    found.json["summary"] = summary;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

/// Those that there are of a run that is not finished.
std::optional<train::Weights> weights_so_far(const fs::path& directory) {
  if (fs::exists(directory / train::RunFiles::model)) return train::Weights::best;
  const train::CheckpointStore checkpoints(directory / train::RunFiles::checkpoints);
  if (!checkpoints.latest().empty()) return train::Weights::last;
  return std::nullopt;
}

void add_model(const fs::path& directory, train::Weights weights, InspectReport& found) {
  auto run = train::RunDirectory(directory).load(weights);
  const int64_t context = run.recipe.max_seq_len();
  const double flops =
      std::visit([&](auto& model) { return flops_per_token(model, context); }, run.model);
  found.tensors = tensors_of(train::module_of(run.model));
  found.tail += report_line(
      "FLOPs", fmt::format("{} a token, forward, in a sequence of {} tokens\n"
                           "            (matrix products only, attention with each position; "
                           "1 multiply-add = 2 FLOPs)",
                           count_text(flops), context));
  found.json["weights"] = std::string(to_string(weights));
  found.json["vocabulary"] = run.tokenizer->size();
  found.json["context"] = context;
  found.json["flops_per_token"] = flops;
}

}  // namespace

InspectReport inspect_run(const fs::path& directory) {
  const auto recipe = train::RunDirectory(directory).recipe();
  const auto summary = directory / train::RunFiles::summary;
  const bool finished = fs::exists(summary);
  InspectReport found;
  found.head = report_line("kind", finished ? "run" : "run, not finished");
  found.json = {{"kind", "run"}, {"path", directory.string()}, {"finished", finished}};
  add_config(recipe, found);
  if (finished) add_summary(summary, found);
  const auto weights = finished ? train::Weights::best : weights_so_far(directory);
  found.has_tensors = weights.has_value();
  if (weights) add_model(directory, *weights, found);
  return found;
}

}  // namespace attend::app
