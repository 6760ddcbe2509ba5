#pragma once

#include "attend/train/recipe.h"

#include <CLI/App.hpp>

#include <functional>
#include <string>
#include <vector>

namespace attend::app {

/// A value of a recipe as it is written after its flag; a switch is "on" or "off".
std::string text_of(const train::RecipeField& field, const train::Recipe& recipe);

/// Every value of a recipe as a flag. What is given is kept apart, so that it can be laid over a
/// recipe that is known only after parsing.
class RecipeFlags {
 public:
  explicit RecipeFlags(CLI::App& command);

  /// The recipe that the command line asks for: flags over the recipe file, if `file` is not
  /// empty, over the defaults of the task that either names.
  train::Recipe resolve(const std::string& file) const;
  /// `base` with the flags over it.
  train::Recipe over(train::Recipe base) const;

 private:
  void apply(train::Recipe& recipe) const;

  std::vector<std::function<void(train::Recipe&)>> given_;
};

}  // namespace attend::app
