#pragma once

#include <string>

namespace attend::app {

/// Returns `text` in black on one of the 256 colors of a terminal, from white for the `heat` 0 to
/// dark orange for 1. `style` is another attribute of the text, such as "1;" (bold), or empty.
std::string on_heat_color(const std::string& text, double heat, const std::string& style = "");

}  // namespace attend::app
