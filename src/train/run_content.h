#pragma once

#include "attend/train/recipe.h"

#include <map>
#include <string>

namespace attend::train {

/// Value of `kind` in data.json for a user's own module; otherwise `model_kind`.
inline constexpr const char* kCustomKind = "custom";

/// Returns the values of a recipe that must be the same when a run is resumed, by key.
std::map<std::string, std::string> fixed_values(const Recipe& recipe);

}  // namespace attend::train
