#pragma once

#include "attend/train/recipe.h"

namespace attend::app {

/// Replaces each pattern with wildcards of the shell among the paths of a recipe, such as
/// "data/*.txt", by the matching files in the order of their names. Keeps a path that exists, and a
/// pattern that no file matches. Throws InputError for a directory, and for a file that is found
/// twice.
void expand_patterns(train::Recipe& recipe);

/// Makes the paths of a recipe absolute, so that the run can be resumed in another directory.
void make_paths_absolute(train::Recipe& recipe);

}  // namespace attend::app
