#pragma once

#include <CLI/App.hpp>

#include <string>

namespace attend::app {

/// Returns a bash completion script for `app`. The script completes subcommands, flags, recipe
/// names, the values of flags with the type name DEVICE or a type name such as "layer|rms", and
/// file and directory names for flags with the type name FILE, PATH or DIR.
std::string bash_completion(const CLI::App& app);

}  // namespace attend::app
