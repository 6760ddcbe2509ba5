#pragma once

#include "attend/train/recipe.h"

#include <CLI/App.hpp>

#include <functional>
#include <string>
#include <vector>

namespace attend::app {

/// The values of a recipe as flags. Given flags are applied after parsing, to a recipe that is
/// known only then.
class RecipeFlags {
 public:
  /// Adds a flag for each value of a recipe.
  explicit RecipeFlags(CLI::App& command);

  /// Returns the recipe of this name or path (empty: none) with the flags applied, over the
  /// defaults of its task.
  train::Recipe resolve(const std::string& name_or_path) const;
  /// Returns `base` with the flags applied.
  train::Recipe over(train::Recipe base) const;

 private:
  using Setters = std::vector<std::function<void(train::Recipe&)>>;

  Setters task_;   // task and text, which determine the kind of model
  Setters given_;  // all others
};

}  // namespace attend::app
