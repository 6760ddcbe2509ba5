#pragma once

#include "attend/train/recipe.h"

#include <map>
#include <string>

namespace attend::train {

/// `kind` of a run of a user's module, where other runs have their `model_kind`.
inline constexpr const char* kCustomKind = "custom";

/// Returns the values of a recipe that must be the same when a run is resumed, by key.
std::map<std::string, std::string> fixed_values(const Recipe& recipe);

}  // namespace attend::train
