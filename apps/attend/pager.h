#pragma once

#include <string>

namespace attend::app {

/// Shows a text on the terminal with the program in the environment variable PAGER, by default
/// less. Sets the variable LESS if it is unset, so that less shows colors and its keys, and ends at
/// once if the text fits on the screen. Prints the text to standard output if PAGER is empty, or if
/// there is no such program.
void show_in_pager(const std::string& text);

}  // namespace attend::app
