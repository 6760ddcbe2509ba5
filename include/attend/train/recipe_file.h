#pragma once

#include "attend/api.h"
#include "attend/train/recipe.h"

#include <filesystem>
#include <optional>
#include <string>

namespace attend::train {

/// The text of a recipe file. The functions below read it several times, which is impossible for a
/// pipe.
struct RecipeText {
  std::string source;  ///< path of the file, for messages
  std::string toml;    ///< content of the file
};

/// Reads a recipe file or a pipe. Throws InputError if it is missing, larger than 16 MiB, empty or
/// not UTF-8.
ATTEND_API RecipeText read_recipe_text(const std::filesystem::path& path);

/// Parses a recipe, as `read_recipe` does for a file.
ATTEND_API Recipe parse_recipe(const RecipeText& text, const Recipe& base);

/// Parses only `task` and `text` of a recipe; the other values are taken from `base`. Used before
/// `parse_recipe`, since the task determines the `base` of `parse_recipe`. Throws InputError if the
/// text is not TOML, for an unknown key, if `task` is not a string, and if `text` is neither a
/// string nor a list of strings.
///
///     const auto file = read_recipe_text("models/sort.toml");
///     const auto task = parse_task_of_recipe(file, {}).task;
///     const auto recipe = parse_recipe(file, find_task(task).defaults);
ATTEND_API Recipe parse_task_of_recipe(const RecipeText& text, const Recipe& base);

/// The task of a recipe file, and the expected results from the file's table `expected`.
struct RecipeCard {
  std::string task = Recipe{}.task;    ///< name of the task
  std::string summary;                 ///< one line about the task
  std::string device;                  ///< hardware on which the values below were measured
  double seconds = 0.0;                ///< training time in seconds
  std::optional<double> val_loss;      ///< validation loss, mean over the targets
  std::optional<double> val_accuracy;  ///< fraction of exact matches, 0 to 1
};

/// Reads the task and the expected results of a recipe file. Throws InputError if the file is
/// missing or not TOML, if it has an unknown key or no table `expected`, or if `task` or a value in
/// `expected` has the wrong type. Does not check the values of the other tables.
ATTEND_API RecipeCard read_recipe_card(const std::filesystem::path& path);

}  // namespace attend::train
