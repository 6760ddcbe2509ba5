#pragma once

#include "attend/train/recipe_run.h"

namespace attend::app {

/// Trains and finishes a run, and prints a header and the progress. `epochs`: value of --epochs,
/// which the header contains; 0 if it was not given. Throws Interrupted if a signal stopped the run
/// before it was finished.
void train_run(train::RecipeRun run, double epochs);

/// Trains and finishes a run together with rank 0, which prints and writes the run. Throws
/// Interrupted if a signal to one of the processes stopped the run before it was finished.
void train_beside_rank_0(train::RecipeRun run);

/// Does the same as `train_run`, and then prints the report, a summary and the next commands.
void train_run_with_results(train::RecipeRun run, double epochs);

}  // namespace attend::app
