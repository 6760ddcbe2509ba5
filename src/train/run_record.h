#pragma once

#include "attend/api.h"
#include "attend/train/recipe.h"
#include "attend/train/recipe_fields.h"
#include "attend/train/run_directory.h"
#include "attend/train/task.h"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace attend::train {

struct TrainingRunOptions;

/// Returns the record of a new run that trains a model of this library, for `RunDirectory::create`.
ATTEND_API RunRecord new_record(const Recipe& recipe, const Task& task);

/// Returns the record of a new run that trains a custom module. `TrainingRunOptions::values`, and
/// the type of the optimizer, must be the same when the run is resumed.
ATTEND_API RunRecord new_record(const TrainingConfig& config, const TrainingRunOptions& options);

/// Advice for a file that cannot be computed again.
inline constexpr const char* kRestore = "restore the file from a copy of the run";

/// Value of `kind` in data.json for a run of a custom module. For a model of this library, the
/// value is the result of `model_kind`.
inline constexpr const char* kCustomKind = "custom";

/// Returns the values that must be the same when a run is resumed: the kind of the model, with the
/// key `kind`, and some values of the recipe, with their keys.
ATTEND_API std::map<std::string, std::string> fixed_values(const Recipe& recipe);

/// Returns the values of a run that was written before any key of recipes existed: the defaults, or
/// `RecipeField::before`. The recipe of the run is read over them. `fixed`: `RunRecord::fixed`, of
/// a model of this library.
ATTEND_API Recipe recipe_before_keys(const std::map<std::string, std::string>& fixed);

/// Key of the run's id in data.json, in summary.json, in the manifests of checkpoints, and in the
/// metadata of model.safetensors.
inline constexpr const char* kRunId = "run_id";

/// Key of `RunRecord::init_from` in data.json.
inline constexpr const char* kInitFrom = "init_from";

/// Returns the value of `kRunId` in a JSON object; empty if it is missing or not a string.
ATTEND_API std::string run_id_in(const nlohmann::ordered_json& json);

/// Sets a random `run_id`, `provenance`, and the checksums of `texts` in `files`.
ATTEND_API void identify(RunRecord& record);

/// Returns the text of data.json.
ATTEND_API std::string to_json(const RunRecord& record);
/// Reads data.json. `fixed` also has the keys that are newer than the run. Throws InputError with
/// the name of the file if it is missing or damaged.
ATTEND_API RunRecord read_record(const std::filesystem::path& path);

/// Returns a JSON object with the fields of `summary` that are not empty. NaN becomes null.
ATTEND_API nlohmann::ordered_json to_object(const RunSummary& summary);
/// Reads summary.json. Throws InputError with the name of the file if it is missing or damaged.
ATTEND_API RunSummary read_summary(const std::filesystem::path& path);

/// Throws InputError if `found`, the run_id in `path`, differs from `expected`, the run_id in
/// data.json. An empty `found` means that `path` contains no run_id.
ATTEND_API void check_run_id(const std::filesystem::path& path, const std::string& found,
                             const std::string& expected);

/// Throws InputError with the differences if `differences` is not empty.
ATTEND_API void throw_if_different(const std::filesystem::path& directory,
                                   const std::vector<std::string>& differences);

/// Returns the data whose part of the checksum differs between a run (`run`) and now: the keys
/// `text` and `val_text` in backquotes, with their paths in `recipe`; the task if it reads no file.
ATTEND_API std::string changed_data(const Recipe& recipe, const std::string& run,
                                    const std::string& now);

/// Returns a line for each value that differs between the resumed run (`run`) and the current
/// configuration (`now`). A value that one of them does not have is compared as an empty string.
ATTEND_API std::vector<std::string> differences_of(const RunRecord& run, const RunRecord& now);
ATTEND_API std::vector<std::string> differences_of(const std::map<std::string, std::string>& run,
                                                   const std::map<std::string, std::string>& now);

/// Returns a line for each value that differs between two recipes, among the fields for which
/// `selects` is true. Values that only one of the two kinds of models has are not compared.
ATTEND_API std::vector<std::string> differences_of(
    const Recipe& run, const Recipe& now, const std::function<bool(const RecipeField&)>& selects);

}  // namespace attend::train
