#pragma once

#include "attend/train/recipe.h"
#include "attend/train/recipe_fields.h"

#include <CLI/App.hpp>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attend::app {

/// Reads the recipe file of the argument `name_or_path`; see `find_recipe`. Returns std::nullopt if
/// the argument is empty. Throws InputError in the same cases as `find_recipe` and
/// `train::read_recipe_text`, and if the file is not a recipe; the message then names the flag for
/// texts.
std::optional<train::RecipeText> read_recipe_argument(const std::string& name_or_path);

/// A value that the command line gives for a field of a recipe.
struct Setting {
  std::reference_wrapper<const train::RecipeField> field;
  std::string name;                         ///< for messages: "--lr", or "--set lr"
  std::function<void(train::Recipe&)> set;  ///< sets the value in a recipe
};

/// Returns the flag of a key of a recipe: --embed-dim for embed_dim.
std::string flag_of(std::string key);

/// Returns the field with the key `name`, for example lr or training.lr. Throws
/// CLI::ValidationError with `option` if no field has this key.
const train::RecipeField& find_field(const std::string& option, const std::string& name);

/// Splits the text KEY=VALUE at the first "=". Throws CLI::ValidationError with `option` if there
/// is none.
std::pair<std::string, std::string> split_assignment(const std::string& option,
                                                     const std::string& text);

/// Parses a value as the flag of `field` does; a boolean is "on" or "off". Throws
/// CLI::ValidationError with `name` for an invalid value.
Setting parse_setting(const train::RecipeField& field, const std::string& name,
                      const std::string& text);

/// Flags for the values of a recipe, and --set. They are applied after parsing, since the recipe
/// that they change is known only then.
class RecipeFlags {
 public:
  /// Adds a flag for each value of a recipe, and --max-text-bytes. Parsing `command` writes to
  /// *this, so *this must not be moved or destroyed before `command` is parsed.
  explicit RecipeFlags(CLI::App& command);

  /// Returns these flags and further settings, which are applied last.
  RecipeFlags with(const std::vector<Setting>& more) const;

  /// Returns the recipe in `file` with the flags applied. Values not set in the recipe file or by
  /// flags are the task's defaults. Without `file`, applies the flags to the task's defaults.
  /// `source`: recipe of the run whose weights are the initial weights. Its task
  /// is the default task, and the defaults of the values are those of `fine_tuning_recipe`.
  train::Recipe resolve(const std::optional<train::RecipeText>& file,
                        const std::optional<train::Recipe>& source = {}) const;
  /// Returns `base` with the flags applied. Throws InputError if two flags set the same value.
  train::Recipe over(train::Recipe base) const;
  /// Returns true if the value of `flag`, for example --lr, was given by the flag or by --set.
  bool has(const std::string& flag) const;

 private:
  const CLI::App* command_;
  std::vector<Setting> given_;
  int64_t max_text_bytes_ = train::DataConfig{}.max_text_bytes;
};

}  // namespace attend::app
