#pragma once

#include "explain/explanation.h"

#include <nlohmann/json.hpp>

#include <functional>
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

/// Returns the rows of a matrix as a JSON array. The numbers of a float tensor have as many digits
/// as a float needs.
nlohmann::ordered_json json_rows(const torch::Tensor& matrix);

/// Returns all steps as a JSON object, as apps/page/README.md describes it. `numbers` returns the
/// numbers of a matrix.
nlohmann::ordered_json to_json(
    const Explanation& explanation,
    const std::function<nlohmann::ordered_json(const LabelledMatrix&)>& numbers =
        [](const LabelledMatrix& matrix) { return json_rows(matrix.values); });

}  // namespace attend::app
