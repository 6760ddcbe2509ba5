#pragma once

#include "attend/api.h"
#include "attend/input_error.h"
#include "attend/train/recipe.h"
#include "attend/train/task.h"
#include "train/recipe_fields.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace attend::train {

struct TrainingRunOptions;

/// Record of when, by which program and on which machine a run was created. Contains no host name
/// and no user name, since runs are published.
struct Provenance {
  std::string created;               ///< time in UTC, as in ISO 8601: 2026-01-31T12:00:00Z
  std::string version;               ///< version of this library
  std::vector<std::string> command;  ///< file name of the program, and its arguments; empty if the
                                     ///< system has no /proc/self/cmdline
  std::string os;                    ///< name and release of the kernel, and the architecture
  std::string cpu;                   ///< model of the CPU; empty if unknown
  int64_t num_cpus = 0;              ///< number of logical CPUs that the process may use
};

/// Identity and origin of a run, and the values that must be the same when it is resumed; saved as
/// data.json. `RunDirectory::create` sets the fields `run_id`, `provenance` and `files`.
struct RunRecord {
  std::string run_id = {};     ///< 128 random bits as 32 hex digits; also in all files with weights
  Provenance provenance = {};  ///< when and how the run was created
  std::string data_checksum;   ///< `Task::data_checksum`
  std::vector<std::string> classes;          ///< class names of a classifier
  std::map<std::string, std::string> fixed;  ///< configuration values that must not change, by key
  std::map<std::string, std::string> files = {};  ///< CRC-32C of recipe.toml and of the tokenizer's
                                                  ///< files, by name
  std::string init_from = {};    ///< `run_id` of the run whose weights were the initial weights;
                                 ///< empty if the initial weights were random
  std::string recipe_name = {};  ///< `Recipe::name`
  std::string next_recipe = {};  ///< CRC-32C of the text that replaces recipe.toml; empty except
                                 ///< while `RunDirectory::save_recipe` writes the file
};

/// Content of a run directory before training.
struct RunContent {
  std::string recipe;                             ///< text of recipe.toml
  RunRecord record;                               ///< content of data.json
  std::map<std::string, std::string> files = {};  ///< contents of further files, by name
};

/// Content of a run that trains a model of this library.
ATTEND_API RunContent run_content(const Recipe& recipe, const Task& task);

/// Content of a run that trains a custom module. `TrainingRunOptions::values`, and the type of the
/// optimizer, must be the same when the run is resumed.
ATTEND_API RunContent run_content(const TrainingConfig& config, const TrainingRunOptions& options);

/// Value of `kind` in data.json for a run of a custom module. For a model of this library, the
/// value is the result of `model_kind`.
inline constexpr const char* kCustomKind = "custom";

/// Returns the values that must be the same when a run is resumed: the kind of the model, with the
/// key `kind`, and some values of the recipe, with their keys.
ATTEND_API std::map<std::string, std::string> fixed_values(const Recipe& recipe);

/// True if `fixed` belongs to a run of a custom module.
ATTEND_API bool is_custom_kind(const std::map<std::string, std::string>& fixed);

/// Key of the run's id in data.json, in summary.json, in the manifests of checkpoints, and in the
/// metadata of model.safetensors.
inline constexpr const char* kRunId = "run_id";

/// Key of `RunRecord::init_from` in data.json.
inline constexpr const char* kInitFrom = "init_from";

/// Returns the value of `kRunId` in a JSON object; empty if it is missing or not a string.
ATTEND_API std::string run_id_in(const nlohmann::ordered_json& json);

/// Returns the record of a new run with this content: with a random `run_id`, and with `provenance`
/// and `files`.
ATTEND_API RunRecord new_record(const RunContent& content);

/// Returns a JSON object with the fields of `provenance`.
ATTEND_API nlohmann::ordered_json to_object(const Provenance& provenance);

/// Returns the text of data.json.
ATTEND_API std::string to_json(const RunRecord& record);
/// Reads data.json. Throws InputError with the name of the file if it is missing or damaged.
ATTEND_API RunRecord read_record(const std::filesystem::path& path);

/// Reads summary.json of the run in `directory`; null if the file is missing. Throws InputError
/// with the name of the file if it is damaged or belongs to another run.
ATTEND_API nlohmann::ordered_json read_summary(const std::filesystem::path& directory);

/// Thrown for a file or folder of another run.
class ATTEND_API OtherRunError : public InputError {
 public:
  using InputError::InputError;
};

/// Throws OtherRunError if `found`, the run_id in `path`, differs from `expected`, the run_id in
/// data.json. An empty `found` means that `path` contains no run_id.
ATTEND_API void check_run_id(const std::filesystem::path& path, const std::string& found,
                             const std::string& expected);

/// Throws InputError with the name of the file if recipe.toml or a file of the tokenizer differs
/// from its checksum in `record`.
ATTEND_API void check_files(const std::filesystem::path& directory, const RunRecord& record);

/// Throws InputError with the name of the file if recipe.toml differs from its checksum in
/// `record`.
ATTEND_API void check_recipe_file(const std::filesystem::path& directory, const RunRecord& record);

/// Throws InputError with the differences if `differences` is not empty.
ATTEND_API void throw_if_different(const std::filesystem::path& directory,
                                   const std::vector<std::string>& differences);

/// Throws InputError with the differences if the run in `directory` was created with values other
/// than `fixed`. Also throws InputError if data.json, recipe.toml or a file of the tokenizer is
/// damaged.
ATTEND_API void check_values(const std::filesystem::path& directory,
                             const std::map<std::string, std::string>& fixed);

/// Returns the data whose part of the checksum differs between a run (`run`) and now: the keys
/// `text` and `val_text` in backquotes, with their paths in `recipe`; the task if it reads no file.
ATTEND_API std::string changed_data(const Recipe& recipe, const std::string& run,
                                    const std::string& now);

/// Throws InputError if `checksum`, that of the data of `recipe`, differs from the checksum of the
/// data with which the run in `directory` was created. The message names the files.
ATTEND_API void check_data(const std::filesystem::path& directory, const Recipe& recipe,
                           const std::string& checksum);

/// Throws InputError if a file of texts in `recipe`, the recipe of the run in `directory`, does not
/// exist. The message says how to continue the run with a file that was moved.
ATTEND_API void check_texts_exist(const std::filesystem::path& directory, const Recipe& recipe);

/// Returns the keys whose values differ, in alphabetical order. A value that one of them does not
/// have is compared as an empty string.
ATTEND_API std::vector<std::string> differing_keys(const std::map<std::string, std::string>& one,
                                                   const std::map<std::string, std::string>& other);

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
