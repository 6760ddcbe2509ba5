#pragma once

#include "explain/explanation.h"

#include <cstddef>
#include <string>

namespace attend::app {

/// Colors of an explanation.
struct ExplanationColors {
  bool highlight = false;  ///< highlight the rows and columns of the token that is followed
  bool heat_map = false;   ///< show scores and attention weights on a background of 256 colors
};

/// Size of a text.
struct TextSize {
  std::size_t width;   ///< columns
  std::size_t height;  ///< lines; 0 = any number
};

/// Returns step number `index` as text of at most `size.width` columns. Large matrices are
/// shortened. If the step would have more than `size.height` lines, small matrices are placed side
/// by side, and large ones are shortened further.
std::string step_text(const Explanation& explanation, std::size_t index, TextSize size,
                      const ExplanationColors& colors);

}  // namespace attend::app
