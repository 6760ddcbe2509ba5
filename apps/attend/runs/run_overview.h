#pragma once

#include "attend/enum_names.h"
#include "attend/train/recipe.h"
#include "attend/train/run_directory.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend::app {

/// State of a run.
enum class RunState {
  finished,    ///< has a summary
  unfinished,  ///< was stopped or killed before its last step
  training,    ///< a process is writing to the run
  damaged,     ///< a file is missing, damaged or of another run
};

/// Description of a run that requires no weights.
struct RunOverview {
  std::filesystem::path directory;
  std::string name;  ///< path below the directory in which the run was found
  RunState state = RunState::unfinished;
  std::string error = {};  ///< message about the damage
  train::RunRecord record = {};
  train::Recipe recipe = {};                       ///< of a custom module: only `training`
  std::map<std::string, std::string> values = {};  ///< values of the recipe as text, by key
  bool is_custom = false;                          ///< trains a custom module
  std::optional<int64_t> parameters = {};          ///< unknown for a custom module in training
  int64_t steps = 0;                               ///< steps done
  std::optional<double> train_loss = {};           ///< of the last step
  std::optional<double> val_loss = {};             ///< best validation loss
  std::optional<int64_t> best_step = {};           ///< step of `val_loss`; only if not finished
  std::optional<double> val_accuracy = {};         ///< of the best evaluation; only if finished
  std::optional<double> seconds = {};
  std::optional<double> tokens_per_second = {};  ///< only if finished
};

/// Returns the directories of all runs in `directory`, also in its subdirectories: only `directory`
/// if it is a run itself. Does not look into hidden directories, runs and symbolic links, but finds
/// runs to which symbolic links point. Throws InputError if `directory` cannot be read, and prints
/// a message for each subdirectory that cannot be read.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& directory);

/// Returns the name of a run directory, also for paths such as "." and "runs/first/".
std::string name_of_run(const std::filesystem::path& directory);

/// Reads the files of a run, but no weights. `parent`: the directory in which the
/// run was found. Does not throw for a damaged run.
RunOverview read_overview(const std::filesystem::path& directory,
                          const std::filesystem::path& parent);

/// Returns an overview as a JSON object. Values that are unknown are missing.
nlohmann::ordered_json to_json(const RunOverview& run);

/// Returns the summary of a finished run; std::nullopt for an unfinished run, also for a finished
/// run whose training was continued. Throws InputError if a file is damaged.
std::optional<train::RunSummary> summary_of(const train::RunDirectory& run);

}  // namespace attend::app

namespace attend {

/// Names of `app::RunState`.
template <>
struct EnumNames<app::RunState> {
  static constexpr std::array<std::string_view, 4> names{"finished", "unfinished", "training",
                                                         "damaged"};
};

}  // namespace attend
