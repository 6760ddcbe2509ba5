#pragma once

#include "attend/train/recipe.h"

#include <string>

namespace attend::app {

/// The group of the help that a value of a recipe stands in: "Model, size".
std::string group_of(const train::RecipeField& field);

/// The unit of a number of a recipe, as it stands after its flag: "TOKENS". Empty if it has none.
std::string unit_of(const train::RecipeField& field);

}  // namespace attend::app
