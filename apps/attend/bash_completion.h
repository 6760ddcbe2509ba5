#pragma once

#include <CLI/App.hpp>

#include <string>

namespace attend::app {

/// Returns a bash completion script for `app`: its subcommands, their flags, the values of enum
/// flags (type name "layer|rms"), and file and directory names (type names FILE, PATH, DIR).
std::string bash_completion(const CLI::App& app);

}  // namespace attend::app
