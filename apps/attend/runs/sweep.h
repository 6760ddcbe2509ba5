#pragma once

#include "attend/train/recipe.h"
#include "attend/train/training_run.h"
#include "recipes/recipe_flags.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace attend::app {

/// Trains each combination of values of some keys of a recipe.
struct Sweep {
  std::filesystem::path out;               ///< contains a run directory per combination
  std::vector<std::vector<Setting>> axes;  ///< for each key, the settings of its values
  /// Returns the recipe of a combination.
  std::function<train::Recipe(const std::vector<Setting>&)> resolve;
  /// Trains and finishes the run of a combination. Throws Interrupted if a signal stopped it.
  std::function<void(train::TrainingRun)> train;
  train::TrainingRunOptions options;  ///< of all combinations
};

/// Parses KEY=VALUE,VALUE,... and returns a setting for each value. Throws CLI::ValidationError for
/// an unknown key or an invalid value.
std::vector<Setting> parse_sweep(const std::string& text);

/// Checks all combinations, trains the combinations that are not finished, prints a table of the
/// results and writes it to sweep.json. Resumes unfinished runs. Throws InputError, before training
/// starts, if a combination is invalid, or if sweep.json contains results of other runs. Throws
/// std::runtime_error at the end if the training of a combination failed, and Interrupted if a
/// signal stopped the sweep.
void run_sweep(const Sweep& sweep);

}  // namespace attend::app
