#pragma once

#include "attend/train/recipe.h"

#include <CLI/App.hpp>

#include <functional>
#include <string>
#include <vector>

namespace attend::app {

/// Flags for the values of a recipe. The flags are applied after parsing, since the recipe that
/// they change is known only then.
class RecipeFlags {
 public:
  /// Adds a flag for each value of a recipe. Parsing `command` writes to *this, so *this must not
  /// be moved or destroyed before `command` is parsed.
  explicit RecipeFlags(CLI::App& command);

  /// Returns the recipe `name_or_path` with the flags applied. Values not set in the recipe file
  /// or by flags are the task's defaults. If `name_or_path` is empty, applies the flags to the
  /// task's defaults.
  train::Recipe resolve(const std::string& name_or_path) const;
  /// Returns `base` with the flags applied.
  train::Recipe over(train::Recipe base) const;
  /// Returns true if `flag` was given, for example --lr.
  bool has(const std::string& flag) const { return command_.count(flag) > 0; }

 private:
  using Setters = std::vector<std::function<void(train::Recipe&)>>;

  const CLI::App& command_;
  Setters task_;   // task and text, which determine the kind of model
  Setters given_;  // all other flags
};

}  // namespace attend::app
