#include "recipes/overrides.h"

#include <nlohmann/json.hpp>

#include <string_view>
#include <type_traits>

namespace attend::app {

void set_value(const train::RecipeField& field, const train::FieldValue& value,
               nlohmann::ordered_json& object) {
  const auto set = [&](const auto& each) {
    if constexpr (!std::is_same_v<std::decay_t<decltype(each)>, std::monostate>)
      object[field.key] = each;
  };
  std::visit(set, value);
}

nlohmann::ordered_json overrides_of(const train::Recipe& recipe, const train::Recipe& defaults) {
  auto overrides = nlohmann::ordered_json::object();
  for (const auto& field : train::recipe_fields()) {
    const auto found = train::field_value(field, recipe);
    if (field.is_paths() || found == train::field_value(field, defaults)) continue;
    set_value(field, found, overrides);
  }
  return overrides;
}

}  // namespace attend::app
