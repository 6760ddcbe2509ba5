#pragma once

#include "attend/train/recipe.h"

#include <nlohmann/json_fwd.hpp>

namespace attend::app {

/// Returns the values of `recipe` that differ from `defaults`, as a JSON object by key. `text` is
/// not compared, because it has no default.
nlohmann::ordered_json overrides_of(const train::Recipe& recipe, const train::Recipe& defaults);

}  // namespace attend::app
