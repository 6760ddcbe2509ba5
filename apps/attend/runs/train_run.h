#pragma once

#include "attend/train/training_run.h"

namespace attend::app {

/// True if nothing is left to do for a run: it is finished, and its directory contains all results.
/// A run without a finite validation loss has no results. Call it in rank 0 only.
bool is_complete(const train::TrainingRun& run);

/// Prints why nothing is left to do for a run that `is_complete`, and how to continue it.
void print_complete(const train::TrainingRun& run, double epochs);

/// Trains and finishes a run, and prints a header and the progress. `epochs`: value of --epochs,
/// which the header contains; 0 if it was not given. Throws Interrupted if a signal stopped the run
/// before it was finished.
void train_run(train::TrainingRun run, double epochs);

/// Trains and finishes a run together with rank 0, which prints and writes the run. Throws
/// Interrupted if a signal to one of the processes stopped the run before it was finished.
void train_beside_rank_0(train::TrainingRun run);

/// Does the same as `train_run`, and then prints the report, a summary and the next commands.
void train_run_with_results(train::TrainingRun run, double epochs);

}  // namespace attend::app
