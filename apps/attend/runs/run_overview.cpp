#include "runs/run_overview.h"

#include "attend/input_error.h"
#include "attend/io/safetensors_header.h"
#include "attend/train/loss_curves.h"
#include "attend/train/recipe_fields.h"
#include "attend/train/run_directory.h"
#include "error_message.h"
#include "terminal/terminal.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace attend::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Like `RunDirectory::exists`, but false for a directory that must not be read.
bool is_readable_run(const fs::path& directory) {
  std::error_code error;
  return fs::is_regular_file(directory / train::RunFiles::recipe, error);
}

/// Adds the runs in a directory and below. Throws InputError if the directory cannot be read;
/// prints a message for each directory below that cannot be read.
void add_runs(const fs::path& directory, std::vector<fs::path>& runs) {
  if (is_readable_run(directory)) {
    runs.push_back(directory);
    return;
  }
  std::error_code error;
  const fs::directory_iterator entries(directory, error);
  std::error_code missing;
  if (error && fs::is_directory(directory, missing)) {
    throw InputError(fmt::format("{}: cannot be read: {}; change its permissions",
                                 directory.string(), error.message()));
  }
  for (const auto& entry : entries) {
    const bool is_hidden = entry.path().filename().native().starts_with('.');
    if (is_hidden || !entry.is_directory(error)) continue;
    if (entry.is_symlink(error) && !is_readable_run(entry.path())) continue;
    try {
      add_runs(entry.path(), runs);
    } catch (const InputError& unreadable) {
      write_error(fmt::format("attend: {}\n", without_control_codes(unreadable.what())));
    }
  }
}

/// Returns the number of elements of the best weights, which are the parameters, since the models
/// of this library have no buffers.
int64_t count_parameters(const SafetensorsHeader& header) {
  int64_t count = 0;
  for (const auto& entry : header.entries) {
    count += std::accumulate(entry.shape.begin(), entry.shape.end(), int64_t{1},
                             std::multiplies<int64_t>());
  }
  return count;
}

void read_recipe(const train::RunDirectory& directory, RunOverview& run) {
  run.record = directory.record();
  run.values = run.record.fixed;
  run.is_custom = directory.is_custom();
  if (run.is_custom) {
    run.recipe.training = directory.custom_config().training;
  } else {
    run.recipe = directory.recipe();
  }
  for (const auto& field : train::recipe_fields()) {
    const bool is_training = std::string_view(field.section) == "training";
    if (is_training || (field.is_paths() && !run.is_custom))
      run.values[field.key] = train::value_text(field, run.recipe);
  }
}

void add_summary(const train::RunSummary& summary, RunOverview& run) {
  run.parameters = summary.parameters;
  run.steps = summary.steps;
  if (!std::isnan(summary.train_loss)) run.train_loss = summary.train_loss;
  run.val_loss = summary.val_loss;
  run.val_accuracy = summary.val_accuracy;
  run.seconds = summary.seconds;
  run.tokens_per_second = summary.tokens_per_second;
}

void add_losses(const train::LossCurves& curves, RunOverview& run) {
  run.steps = curves.steps;
  run.seconds = curves.seconds;
  if (!curves.train.empty()) run.train_loss = curves.train.back().loss;
  const auto best = std::min_element(curves.val.begin(), curves.val.end(),
                                     [](const auto& a, const auto& b) { return a.loss < b.loss; });
  if (best == curves.val.end()) return;
  run.val_loss = best->loss;
  run.best_step = best->step;
}

/// Adds what a checkpoint contains and metrics.jsonl does not, such as the steps after the last
/// progress report.
void add_state(const train::TrainerState& state, RunOverview& run) {
  run.steps = std::max(run.steps, state.step);
  if (run.val_loss || !state.best) return;
  run.val_loss = state.best->loss;
  run.best_step = state.best_step;
}

void read_files(RunOverview& run) {
  const auto directory = train::RunDirectory::open(run.directory);
  read_recipe(directory, run);
  const auto summary = summary_of(directory);
  const bool is_locked = train::RunDirectory::is_locked(run.directory);
  run.state = is_locked ? RunState::training : summary ? RunState::finished : RunState::unfinished;
  const bool finished = run.state == RunState::finished;
  if (finished || fs::exists(directory.weights_file())) {
    const auto parameters = count_parameters(directory.weights_header());  // throws if damaged
    if (!run.is_custom) run.parameters = parameters;
  }
  if (finished) {
    add_summary(*summary, run);
  } else {
    add_losses(train::read_loss_curves(directory.file(train::RunFiles::metrics)), run);
    if (const auto state = directory.checkpoints().latest_state()) add_state(*state, run);
  }
}

}  // namespace

std::optional<train::RunSummary> summary_of(const train::RunDirectory& run) {
  auto summary = run.summary();
  if (!summary) return summary;
  const auto state = run.checkpoints().latest_state();
  if (!state) return summary;
  const auto config = run.is_custom() ? run.custom_config().training : run.recipe().training;
  return run.is_finished(*state, config) ? summary : std::nullopt;
}

std::string name_of_run(const fs::path& directory) {
  return fs::absolute(directory / "").lexically_normal().parent_path().filename().string();
}

std::vector<fs::path> find_runs(const fs::path& directory) {
  std::vector<fs::path> runs;
  add_runs(directory, runs);
  std::sort(runs.begin(), runs.end());
  return runs;
}

RunOverview read_overview(const fs::path& directory, const fs::path& parent) {
  const auto below = directory.lexically_normal().lexically_relative(parent.lexically_normal());
  RunOverview run{.directory = directory,
                  .name = below == "." ? directory.lexically_normal().string() : below.string()};
  try {
    read_files(run);
  } catch (const std::exception& error) {
    run.state = RunState::damaged;
    run.error = error_text(error);
  }
  return run;
}

ordered_json to_json(const RunOverview& run) {
  ordered_json json{{"run", run.name},
                    {"path", run.directory.string()},
                    {"state", std::string(to_string(run.state))}};
  const auto set = [&](const char* key, const auto& value) {
    if (value) json[key] = *value;
  };
  if (!run.error.empty()) json["error"] = run.error;
  if (!run.record.run_id.empty()) {
    json["run_id"] = run.record.run_id;
    json["created"] = run.record.provenance.created;
  }
  if (run.state == RunState::damaged) return json;
  if (!run.is_custom) json["task"] = run.recipe.task;
  set("parameters", run.parameters);
  json["steps"] = run.steps;
  json["max_steps"] = run.recipe.training.max_steps;
  set("train_loss", run.train_loss);
  set("val_loss", run.val_loss);
  set("val_accuracy", run.val_accuracy);
  set("seconds", run.seconds);
  set("tokens_per_second", run.tokens_per_second);
  return json;
}

}  // namespace attend::app
