#include "overrides.h"

#include "train/recipe_fields.h"

#include <nlohmann/json.hpp>

#include <string_view>
#include <type_traits>

namespace attend::app {

nlohmann::ordered_json overrides_of(const train::Recipe& recipe, const train::Recipe& defaults) {
  auto overrides = nlohmann::ordered_json::object();
  for (const auto& field : train::recipe_fields()) {
    const auto found = train::field_value(field, recipe);
    if (std::string_view(field.key) == "text" || found == train::field_value(field, defaults)) {
      continue;
    }
    const auto set = [&](const auto& value) {
      if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, std::monostate>)
        overrides[field.key] = value;
    };
    std::visit(set, found);
  }
  return overrides;
}

}  // namespace attend::app
