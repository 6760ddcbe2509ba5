#pragma once

#include "attend/train/recipe.h"
#include "attend/train/recipe_fields.h"

#include <nlohmann/json_fwd.hpp>

namespace attend::app {

/// Sets the member with the key of `field`. Does nothing if the kind of model has no such field.
void set_value(const train::RecipeField& field, const train::FieldValue& value,
               nlohmann::ordered_json& object);

/// Returns the values of `recipe` that differ from `defaults`, as a JSON object by key. `text` is
/// not compared, because it has no default.
nlohmann::ordered_json overrides_of(const train::Recipe& recipe, const train::Recipe& defaults);

}  // namespace attend::app
