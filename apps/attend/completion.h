#pragma once

#include <CLI/App.hpp>

#include <string>

namespace attend::app {

/// Returns a completion script for `app` in the language of the shell. The script completes
/// subcommands, flags, and the values of flags and arguments.
std::string bash_completion(const CLI::App& app);
std::string fish_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);

}  // namespace attend::app
