#pragma once

#include <CLI/App.hpp>

#include <string>

namespace attend::app {

/// A bash script that completes the commands of `app`, their flags, the values of flags that have
/// a few (by their type name: "layer|rms"), and the names of files and directories (FILE, DIR,
/// PATH). It is made from `app` itself, so it knows what `app` knows.
std::string bash_completion(const CLI::App& app);

}  // namespace attend::app
