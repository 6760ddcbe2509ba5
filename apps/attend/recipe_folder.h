#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace attend::app {

/// What stands in the help for what `find_recipe` takes.
inline constexpr const char* kRecipeType = "FILE|NAME";

/// The recipes that come with the program: files of the folder that the environment variable
/// ATTEND_MODELS names, else of the one that lies beside the program, built or installed. Sorted.
std::vector<std::filesystem::path> shipped_recipes();
/// Their names, as `find_recipe` takes them.
std::vector<std::string> names_of_shipped_recipes();

/// The file of a recipe, given as its path or as the name of a shipped one. Throws InputError,
/// naming the nearest, if there is neither.
std::filesystem::path find_recipe(const std::string& name_or_path);

}  // namespace attend::app
