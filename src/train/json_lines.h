#pragma once

#include "attend/api.h"
#include "train/append_file.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace attend::train {

/// Opens a log for appending. Each line of a log is a JSON object with the integer `step`. Removes
/// incomplete lines and lines of steps after `last_step`; a `last_step` of -1 removes all lines.
/// Throws std::runtime_error with path and reason if the file cannot be written.
ATTEND_API AppendFile open_json_lines(const std::filesystem::path& path, int64_t last_step);

/// Reads a log line by line and calls `use` with each. If `is_finished` is false, a last line
/// without a line break is ignored: a process may be writing it, or was killed while it wrote it.
/// Throws InputError if the file is missing or a line is damaged; the message names the file and
/// the number of the line.
ATTEND_API void for_each_json_line(const std::filesystem::path& path, bool is_finished,
                                   const std::function<void(nlohmann::json)>& use);

/// Returns the lines of a log. Throws as `for_each_json_line`.
ATTEND_API std::vector<nlohmann::json> read_json_lines(const std::filesystem::path& path,
                                                       bool is_finished);

}  // namespace attend::train
