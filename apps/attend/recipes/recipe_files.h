// Recipe files, and the files that a recipe names.
#pragma once

#include "attend/train/recipe.h"

#include <filesystem>
#include <string>
#include <vector>

namespace attend::app {

/// Type name of a recipe argument in help texts; see `find_recipe`.
inline constexpr const char* kRecipeType = "FILE|NAME";

/// Paths of the shipped recipes, sorted: the .toml files in $ATTEND_MODELS if it is set, else in
/// the folder `models` of the installation or the source tree.
std::vector<std::filesystem::path> shipped_recipes();
/// Names of the shipped recipes: file names without extension.
std::vector<std::string> names_of_shipped_recipes();

/// Returns the path of the recipe `name_or_path`. If `name_or_path` is an existing file or has a
/// file extension, it is a path and is returned unchanged. Any other text is the name of a shipped
/// recipe. If no shipped recipe has this name, throws InputError. The message then suggests the
/// most similar name, unless all names are very different.
std::filesystem::path find_recipe(const std::string& name_or_path);

/// Replaces each pattern with wildcards of the shell among the paths of a recipe, such as
/// "data/*.txt", by the matching files in the order of their names. Keeps a path that exists, and a
/// pattern that no file matches. Throws InputError for a directory, and for a file that is found
/// twice.
void expand_patterns(train::Recipe& recipe);

/// Makes the paths of a recipe absolute, so that the run can be resumed in another directory.
void make_paths_absolute(train::Recipe& recipe);

}  // namespace attend::app
