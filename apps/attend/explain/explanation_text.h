#pragma once

#include "explain/explanation.h"

#include <nlohmann/json.hpp>

#include <string>

namespace attend::app {

/// Returns step number `index` as text of at most `width` columns. The rows of the token that is
/// followed are highlighted if `colors` is set. Large matrices are shortened.
std::string step_text(const Explanation& explanation, std::size_t index, std::size_t width,
                      bool colors);

/// Returns all steps with all numbers as a JSON object.
nlohmann::ordered_json to_json(const Explanation& explanation);

}  // namespace attend::app
