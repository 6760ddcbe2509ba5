#pragma once

#include <CLI/App.hpp>

#include <string>

namespace attend::app {

/// Returns a bash completion script for `app`. The script completes subcommands, flags, and the
/// values of flags and arguments. The type name of a value determines its completions: devices for
/// DEVICE, directories for DIR, files for FILE and PATH, files and recipe names for `kRecipeType`,
/// and the names `layer` and `rms` for a type name such as "layer|rms".
std::string bash_completion(const CLI::App& app);

}  // namespace attend::app
