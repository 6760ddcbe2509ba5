#pragma once

#include "attend/api.h"
#include "attend/train/json_lines.h"
#include "io/files.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace attend::train {

/// Opens a log for appending. Each line of a log is a JSON object with the integer `step`. Removes
/// incomplete lines and lines of steps after `last_step`; a `last_step` of -1 removes all lines.
/// Throws std::runtime_error with path and reason if the file cannot be written.
ATTEND_API AppendFile open_json_lines(const std::filesystem::path& path, int64_t last_step);

/// Returns the lines of a log. Throws as `for_each_json_line`.
ATTEND_API std::vector<nlohmann::json> read_json_lines(const std::filesystem::path& path,
                                                       bool is_finished);

}  // namespace attend::train
