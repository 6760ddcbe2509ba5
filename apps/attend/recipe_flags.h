#pragma once

#include "attend/train/recipe.h"

#include <CLI/App.hpp>

#include <functional>
#include <string>
#include <vector>

namespace attend::app {

/// Every value of a recipe as a flag. What is given is kept apart, so that it can be laid over a
/// recipe that is known only after parsing.
class RecipeFlags {
 public:
  explicit RecipeFlags(CLI::App& command);

  /// The recipe that the command line asks for: flags over the recipe of this name or path, if it
  /// is not empty, over the defaults of the task that either names.
  train::Recipe resolve(const std::string& name_or_path) const;
  /// `base` with the flags over it.
  train::Recipe over(train::Recipe base) const;

 private:
  using Setters = std::vector<std::function<void(train::Recipe&)>>;

  Setters task_;   // the task and its file, on which the kind of model depends
  Setters given_;  // all others
};

}  // namespace attend::app
