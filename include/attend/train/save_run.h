#pragma once

#include "attend/api.h"
#include "attend/train/run_directory.h"

#include <filesystem>

namespace attend::train {

/// Writes a run without training, for example with the weights of a published model. A new run can
/// begin with its weights (`TrainingRunOptions::init_from`), and `RunDirectory::load` returns a run
/// equal to `run`. If the process fails, `path` is as it was before; if it is killed while it
/// replaces a run, that run may be in `RunDirectory::replaced(path)`. Throws InputError in the same
/// cases as `RunDirectory::create`.
///
///     save_run(RunDirectory::open("runs/demo").load(), "runs/copy");
ATTEND_API void save_run(const Run& run, const std::filesystem::path& path, bool overwrite = false);

}  // namespace attend::train
