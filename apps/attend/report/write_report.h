#pragma once

#include <filesystem>
#include <string>

namespace attend::app {

/// Writes the report of the run in `directory` to `file`. An existing file is replaced atomically.
/// Throws InputError if a file of the run is damaged, and std::runtime_error if `file` cannot be
/// written; the message names the file.
void write_report(const std::filesystem::path& directory, const std::filesystem::path& file);

/// A report for a browser that follows the run.
struct ServedReport {
  std::string version;  ///< of the files of the run
  std::string page;     ///< HTML page that may send requests to its own server
  std::string data;     ///< JSON of the page, in one line
};

/// Returns the report of the run in `directory`, whose files have the version `version`. The JSON
/// contains it, so that the page can ask for changes. Throws InputError if a file of the run is
/// damaged.
ServedReport served_report(const std::filesystem::path& directory, const std::string& version);

}  // namespace attend::app
