#pragma once

#include "attend/api.h"
#include "attend/input_error.h"
#include "train/run_content.h"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attend::train {

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

/// Returns `record` for a new run whose tokenizer has the files `files`, as text by name: with a
/// random `run_id`, and with `provenance` and `files`.
ATTEND_API RunRecord new_record(RunRecord record, const std::map<std::string, std::string>& files);

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

/// Throws InputError with the name of the file if a file of the tokenizer differs from its checksum
/// in `record`.
ATTEND_API void check_tokenizer_files(const std::filesystem::path& directory,
                                      const RunRecord& record);

/// Throws InputError with the differences if `differences` is not empty.
ATTEND_API void throw_if_different(const std::filesystem::path& directory,
                                   const std::vector<std::string>& differences);

/// Throws InputError with the differences if the run in `directory` was created with values other
/// than `fixed`. Also throws InputError if data.json or a file of the tokenizer is damaged.
ATTEND_API void check_values(const std::filesystem::path& directory,
                             const std::map<std::string, std::string>& fixed);

/// Returns a line for each value that differs between the resumed run (`run`) and the current
/// configuration (`now`). A value that one of them does not have is compared as an empty string.
ATTEND_API std::vector<std::string> differences_of(const RunRecord& run, const RunRecord& now);
ATTEND_API std::vector<std::string> differences_of(const std::map<std::string, std::string>& run,
                                                   const std::map<std::string, std::string>& now);

}  // namespace attend::train
