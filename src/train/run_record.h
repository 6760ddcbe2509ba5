#pragma once

#include "train/run_content.h"

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
std::map<std::string, std::string> fixed_values(const Recipe& recipe);

/// True if `fixed` belongs to a run of a custom module.
bool is_custom_kind(const std::map<std::string, std::string>& fixed);

/// Returns the text of data.json.
std::string to_json(const RunRecord& record);
/// Reads data.json. Throws InputError with the name of the file if it is missing or damaged.
RunRecord read_record(const std::filesystem::path& path);

/// Throws InputError with the differences if `differences` is not empty.
void throw_if_different(const std::filesystem::path& directory,
                        const std::vector<std::string>& differences);

/// Throws InputError with the differences if the run in `directory` was created with values other
/// than `fixed`.
void check_values(const std::filesystem::path& directory,
                  const std::map<std::string, std::string>& fixed);

/// Returns a line for each value that differs between the resumed run (`run`) and the current
/// configuration (`now`). A value that one of them does not have is compared as an empty string.
std::vector<std::string> differences_of(const RunRecord& run, const RunRecord& now);
std::vector<std::string> differences_of(const std::map<std::string, std::string>& run,
                                        const std::map<std::string, std::string>& now);

}  // namespace attend::train
