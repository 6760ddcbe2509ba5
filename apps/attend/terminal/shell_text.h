#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attend::app {

/// Returns `text` in single quotes for a shell. `quote_in_quotes` replaces a single quote.
std::string shell_quoted(std::string_view text, std::string_view quote_in_quotes = "'\\''");

/// Returns the arguments of a command line, separated by spaces. Arguments are quoted if a shell
/// would not take them as they are.
std::string command_text(const std::vector<std::string>& command);

}  // namespace attend::app
