#include "recipe_folder.h"

#include "attend/input_error.h"
#include "nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

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

}  // namespace attend::app
