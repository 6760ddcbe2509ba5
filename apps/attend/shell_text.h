#pragma once

#include <string>
#include <vector>

namespace attend::app {

/// Returns the arguments of a command line, separated by spaces. Arguments are quoted if a shell
/// would not take them as they are.
std::string command_text(const std::vector<std::string>& command);

}  // namespace attend::app
