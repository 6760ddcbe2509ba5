#include "recipes/recipe_files.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "attend/train/nearest_name.h"
#include "attend/train/recipe_fields.h"
#include "attend/train/run_directory.h"
#include "recipes/recipe_flags.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>
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

/// Returns the directory and all directories below it, except hidden ones and links.
std::vector<fs::path> directories_below(const fs::path& directory) {
  std::vector<fs::path> directories{directory};
  std::error_code error;
  auto entry = fs::recursive_directory_iterator(directory, error);
  for (const auto end = fs::end(entry); entry != end; entry.increment(error)) {
    if (entry->is_symlink() || !entry->is_directory()) continue;
    if (entry->path().filename().native().starts_with('.'))
      entry.disable_recursion_pending();
    else
      directories.push_back(entry->path());
  }
  if (error) throw InputError(fmt::format("{}: {}", directories.back().string(), error.message()));
  return directories;
}

/// Returns a pattern that matches only `path`.
std::string pattern_of(const fs::path& path) {
  std::string pattern;
  for (const char c : path.string()) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

/// Adds the paths that match a pattern of the shell to `paths`. As in most shells, a component **
/// matches any number of directories, and wildcards do not match hidden files.
void add_matches(const std::string& pattern, std::set<std::string>& paths) {
  constexpr std::string_view kAnyDirectories = "**/";
  glob_t found{};
  auto at = pattern.find(kAnyDirectories);
  while (at != pattern.npos && at > 0 && pattern[at - 1] != '/')
    at = pattern.find(kAnyDirectories, at + 1);
  const auto first = at == 0 ? "./" : pattern.substr(0, at);
  if (glob(first.c_str(), 0, nullptr, &found) == 0) {
    for (const std::string path : std::span(found.gl_pathv, found.gl_pathc)) {
      if (at == pattern.npos) {
        paths.insert(path);
        continue;
      }
      for (const auto& directory : directories_below(path))
        add_matches(pattern_of(directory / "") + pattern.substr(at + kAnyDirectories.size()),
                    paths);
    }
  }
  globfree(&found);
}

/// Throws InputError if ** is a part of a name, in which it would match only as * does.
void check_stars(const std::string& pattern) {
  constexpr std::string_view kStars = "**";
  const fs::path path(pattern);
  for (auto part = path.begin(); part != path.end(); ++part) {
    const auto& name = part->native();
    if (name.find(kStars) == name.npos || (name == kStars && std::next(part) != path.end()))
      continue;
    throw InputError(fmt::format(
        "{}: ** matches whole directories, expected a pattern such as '**/*.txt', found '{}'",
        pattern, name));
  }
}

/// Returns the files that match a pattern of the shell; the pattern itself if there are none.
std::vector<std::string> matching_files(const std::string& pattern) {
  std::error_code missing;
  if (fs::is_directory(pattern, missing)) {
    throw InputError(
        fmt::format("{0}: expected a file, found a directory; for all its texts, pass a pattern in "
                    "quotes: '{1}'",
                    pattern, (fs::path(pattern) / "**" / "*.txt").string()));
  }
  if (fs::exists(pattern, missing)) return {pattern};
  check_stars(pattern);
  std::set<std::string> files;
  add_matches(pattern, files);
  return files.empty() ? std::vector{pattern} : std::vector(files.begin(), files.end());
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
  if (train::RunDirectory::exists(name_or_path)) {
    throw InputError(
        fmt::format("{0}: expected a recipe, found the directory of a run: continue the run with "
                    "--resume {0}, or pass its recipe, {1}, to train a new one",
                    name_or_path, (fs::path(name_or_path) / train::RunFiles::recipe).string()));
  }
  if (fs::is_directory(name_or_path, missing)) {
    throw InputError(fmt::format(
        "{}: expected a recipe, found a directory; to train on its texts, pass --text '{}'",
        name_or_path, (fs::path(name_or_path) / "**" / "*.txt").string()));
  }
  throw InputError(fmt::format("{}: no such file or recipe (`attend models` lists the recipes){}",
                               name_or_path,
                               train::did_you_mean(name_or_path, names_of_shipped_recipes())));
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
  if (auto& folder = recipe.data.token_dir; !folder.empty()) folder = fs::absolute(folder).string();
}

}  // namespace attend::app
