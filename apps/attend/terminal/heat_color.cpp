#include "terminal/heat_color.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace attend::app {

std::string on_heat_color(const std::string& text, double heat, const std::string& style) {
  // Black text has a contrast of at least 6:1 to each of these colors.
  constexpr std::array kColors{231, 230, 229, 222, 215, 208, 202};
  const auto index = std::lround(std::clamp(heat, 0.0, 1.0) * (kColors.size() - 1));
  return fmt::format("\x1b[{}38;5;16;48;5;{}m{}\x1b[0m", style,
                     kColors[static_cast<std::size_t>(index)], text);
}

}  // namespace attend::app
