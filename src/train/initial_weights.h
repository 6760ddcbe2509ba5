#pragma once

#include "attend/train/recipe_run.h"
#include "attend/train/run_directory.h"

#include <filesystem>

namespace attend::train {

/// Throws InputError if the task of `recipe` reads a file and `recipe` has other options of the
/// tokenizer than `source`, the run in `directory`, or if the tokenizer of `source` was not made
/// from a file.
void check_tokenizer_options(const std::filesystem::path& directory, const Run& source,
                             const Recipe& recipe);

/// Copies the weights of `source`, the run in `directory`, into the model of `setup`, which belongs
/// to `recipe`; see `RecipeRun::begin`.
InitialWeights copy_initial_weights(const std::filesystem::path& directory, const Run& source,
                                    const Recipe& recipe, const TrainingSetup& setup);

}  // namespace attend::train
