#include "recipe_paths.h"

#include "attend/input_error.h"
#include "io/utf8.h"
#include "train/recipe_fields.h"

#include <fmt/format.h>
#include <glob.h>

#include <filesystem>
#include <string>
#include <vector>

namespace attend::app {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_of(const std::string& pattern) {
  std::error_code missing;
  if (fs::is_directory(pattern, missing)) {
    throw InputError(
        fmt::format("{0}: expected a file, found a directory; for all its texts, pass a pattern in "
                    "quotes: '{1}'",
                    pattern, (fs::path(pattern) / "*.txt").string()));
  }
  if (fs::exists(pattern, missing)) return {pattern};
  glob_t found{};
  glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return files.empty() ? std::vector{pattern} : files;
}

}  // namespace

void expand_patterns(train::Recipe& recipe) {
  for (auto* paths : train::paths_of(recipe)) {
    std::vector<std::string> expanded;
    for (const auto& pattern : *paths) {
      const auto files = files_of(pattern);
      // A recipe is a TOML file, which contains only UTF-8.
      for (const auto& file : files) check_utf8(file, "the name of a file that matches " + pattern);
      expanded.insert(expanded.end(), files.begin(), files.end());
    }
    *paths = std::move(expanded);
  }
}

void make_paths_absolute(train::Recipe& recipe) {
  for (auto* paths : train::paths_of(recipe)) {
    for (auto& path : *paths) path = fs::absolute(path).string();
  }
}

}  // namespace attend::app
