#include "recipe_files.h"

#include "attend/input_error.h"
#include "io/utf8.h"
#include "nearest_name.h"
#include "recipe_flags.h"
#include "train/recipe_fields.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

namespace attend::app {
namespace {

namespace fs = std::filesystem;

fs::path recipe_folder() {
  std::error_code unknown;
  const char* given = std::getenv("ATTEND_MODELS");
  if (given != nullptr && *given != '\0') {
    if (fs::is_directory(given, unknown)) return given;
    throw InputError(
        fmt::format("ATTEND_MODELS is {}, expected a directory with recipes: correct or unset the "
                    "environment variable",
                    given));
  }
  const auto program = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  // In an installation, the program is in PREFIX/bin, and the recipes are in
  // PREFIX/share/attend/models. In the source tree, the program is in build/PRESET/bin, and the
  // recipes are in models.
  const auto installed = program.parent_path() / "share" / "attend" / "models";
  if (fs::is_directory(installed, unknown)) return installed;
  return program.parent_path().parent_path().parent_path() / "models";
}

/// Returns the files that match a pattern of the shell; the pattern itself if there are none.
std::vector<std::string> matching_files(const std::string& pattern) {
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

std::vector<fs::path> shipped_recipes() {
  std::vector<fs::path> recipes;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(recipe_folder(), missing)) {
    if (entry.path().extension() == ".toml") recipes.push_back(entry.path());
  }
  std::sort(recipes.begin(), recipes.end());
  return recipes;
}

std::vector<std::string> names_of_shipped_recipes() {
  std::vector<std::string> names;
  for (const auto& recipe : shipped_recipes()) names.push_back(recipe.stem().string());
  return names;
}

fs::path find_recipe(const std::string& name_or_path) {
  std::error_code missing;
  // Pipes are accepted, so `is_regular_file` is not used. Directories are not accepted, since a
  // directory may have the same name as a shipped recipe.
  const bool is_file =
      fs::exists(name_or_path, missing) && !fs::is_directory(name_or_path, missing);
  if (is_file || fs::path(name_or_path).has_extension()) {
    return name_or_path;
  }
  for (const auto& recipe : shipped_recipes()) {
    if (recipe.stem() == name_or_path) return recipe;
  }
  throw InputError(fmt::format("{}: no such file or recipe (`attend models` lists the recipes){}",
                               name_or_path,
                               did_you_mean(name_or_path, names_of_shipped_recipes())));
}

void expand_patterns(train::Recipe& recipe) {
  for (auto* paths : train::paths_of(recipe)) {
    std::vector<std::string> expanded;
    for (const auto& pattern : *paths) {
      const auto files = matching_files(pattern);
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
