#pragma once

#include "explain/explanation.h"

#include <nlohmann/json.hpp>

#include <string>

namespace attend::app {

/// Colors of an explanation.
struct ExplanationColors {
  bool highlight = false;  ///< highlight the rows and columns of the token that is followed
  bool heat_map = false;   ///< show scores and attention weights on a background of 256 colors
};

/// Returns step number `index` as text of at most `width` columns. Large matrices are shortened.
std::string step_text(const Explanation& explanation, std::size_t index, std::size_t width,
                      const ExplanationColors& colors);

/// Returns all steps with all numbers as a JSON object.
nlohmann::ordered_json to_json(const Explanation& explanation);

}  // namespace attend::app
