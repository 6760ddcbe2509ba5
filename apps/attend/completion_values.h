#pragma once

#include <CLI/App.hpp>

#include <string>
#include <vector>

namespace attend::app {

/// Completions of the value of an option or argument.
struct ValueCompletion {
  enum class Paths { none, files, directories };

  Paths paths = Paths::none;
  std::vector<std::string> words = {};
};

/// Returns the completions for the type name of an option: devices for DEVICE, directories for DIR,
/// files for FILE and PATH, files and recipe names for `kRecipeType`, directories and examples for
/// `kSubjectType`, and the names `layer` and `rms` for a type name such as "layer|rms". Numbers and
/// free text have no completions.
ValueCompletion value_completion(const CLI::Option& option);

/// Returns all subcommands of `app`, in the order of the help.
std::vector<const CLI::App*> subcommands_of(const CLI::App& app);

/// Returns `text` in single quotes for a shell. `quote_in_quotes` replaces a single quote.
std::string quoted(const std::string& text, const std::string& quote_in_quotes);

}  // namespace attend::app
