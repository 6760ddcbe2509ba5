#include "recipe_paths.h"

#include "attend/input_error.h"
#include "io/utf8.h"
#include "recipe_flags.h"
#include "train/recipe_fields.h"

#include <fmt/format.h>
#include <glob.h>

#include <filesystem>
#include <map>
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

/// Throws InputError if a file is given twice: it would be training data twice, or both training
/// and validation data.
void check_are_distinct(const train::Recipe& recipe) {
  std::map<fs::path, std::string> flags;  // by canonical path
  for (const auto& field : train::recipe_fields()) {
    if (!field.is_paths()) continue;
    const auto flag = flag_of(field.key);
    const auto paths = std::get<std::vector<std::string>>(train::field_value(field, recipe));
    for (const auto& path : paths) {
      std::error_code missing;
      const auto file = fs::canonical(path, missing);
      if (missing) continue;  // an error when it is read
      const auto [found, is_new] = flags.emplace(file, flag);
      if (is_new) continue;
      throw InputError(fmt::format(
          "{}: found twice, {}, expected each file once: remove it from the command, or pass a "
          "pattern that does not match it",
          path,
          found->second == flag ? "in " + flag
                                : fmt::format("in {} and in {}", found->second, flag)));
    }
  }
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
  check_are_distinct(recipe);
}

void make_paths_absolute(train::Recipe& recipe) {
  for (auto* paths : train::paths_of(recipe)) {
    for (auto& path : *paths) path = fs::absolute(path).string();
  }
}

}  // namespace attend::app
