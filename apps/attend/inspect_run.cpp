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

/// The fields that differ from the defaults of the recipe's task.
std::vector<const RecipeField*> overridden_fields(const train::Recipe& recipe) {
  const auto& defaults = train::find_task(recipe.task).defaults;
  std::vector<const RecipeField*> overridden;
  for (const auto& field : train::recipe_fields()) {
    if (std::string_view(field.key) == "text") continue;  // has no default
    if (train::value_text(field, recipe) != train::value_text(field, defaults))
      overridden.push_back(&field);
  }
  return overridden;
}

void add_config(const train::Recipe& recipe, InspectReport& report) {
  report.header += report_line("task", recipe.task);
  if (!recipe.text.empty()) report.header += report_line("text", printable(recipe.text));
  report.header += report_line(
      "model",
      fmt::format("{}, max_seq_len {}", train::model_kind(recipe.model), recipe.max_seq_len()));
  const auto& defaults = train::find_task(recipe.task).defaults;
  auto overrides = ordered_json::array();
  for (const auto* field : overridden_fields(recipe)) {
    report.header += report_line(
        overrides.empty() ? "overrides" : "",
        fmt::format("{} = {} (default {})", field->key, train::value_text(*field, recipe),
                    train::value_text(*field, defaults)));
    overrides.push_back(field->key);
  }
  if (overrides.empty()) report.header += report_line("overrides", "none (defaults of the task)");
  report.json["task"] = recipe.task;
  report.json["config"] = config_json(recipe);
  report.json["overrides"] = std::move(overrides);
}

/// Adds the results of training.
void add_summary(const fs::path& path, InspectReport& report) {
  try {
    const auto summary = ordered_json::parse(read_text(path));
    const auto number = [&](const char* key) {
      const auto& value = summary.at(key);
      return value.is_null() ? NAN : value.get<double>();  // JSON has no NaN
    };
    report.header += report_line(
        "trained", fmt::format("{} steps, {:.1f} s, {} tok/s", number("steps"), number("seconds"),
                               count_text(std::round(number("tokens_per_second")))));
    report.header += report_line("train loss", fmt::format("{:.4f}", number("train_loss")));
    report.header += report_line(
        "val loss", fmt::format("{:.4f} (best, step {})", number("val_loss"), number("best_step")));
    if (summary.contains("val_accuracy")) {
      report.header +=
          report_line("accuracy", fmt::format("{:.1f}%", number("val_accuracy") * 100));
    }
    report.json["summary"] = summary;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

/// The weights available in an unfinished run.
std::optional<train::Weights> available_weights(const fs::path& directory) {
  if (fs::exists(directory / train::RunFiles::model)) return train::Weights::best;
  const train::CheckpointStore checkpoints(directory / train::RunFiles::checkpoints);
  if (!checkpoints.latest().empty()) return train::Weights::last;
  return std::nullopt;
}

void add_model(const fs::path& directory, train::Weights weights, InspectReport& report) {
  auto run = train::RunDirectory::open(directory).load(weights);
  const int64_t max_seq_len = run.recipe.max_seq_len();
  const double flops =
      std::visit([&](auto& model) { return flops_per_token(model, max_seq_len); }, run.model);
  report.tensors = tensors_of(train::module_of(run.model));
  report.footer += report_line(
      "FLOPs", fmt::format("{} per token, forward pass, sequence length {}\n"
                           "            (matrix products only; 1 multiply-add = 2 FLOPs)",
                           count_text(flops), max_seq_len));
  report.json["weights"] = std::string(to_string(weights));
  report.json["vocab_size"] = run.tokenizer->size();
  report.json["max_seq_len"] = max_seq_len;
  report.json["flops_per_token"] = flops;
}

}  // namespace

InspectReport inspect_run(const fs::path& directory) {
  const auto recipe = train::RunDirectory::open(directory).recipe();
  const auto summary = directory / train::RunFiles::summary;
  const bool finished = fs::exists(summary);
  InspectReport report;
  report.header = report_line("kind", finished ? "run" : "run (unfinished)");
  report.json = {{"kind", "run"}, {"path", directory.string()}, {"finished", finished}};
  add_config(recipe, report);
  if (finished) add_summary(summary, report);
  const auto weights = finished ? train::Weights::best : available_weights(directory);
  report.has_tensors = weights.has_value();
  if (weights) add_model(directory, *weights, report);
  return report;
}

}  // namespace attend::app
