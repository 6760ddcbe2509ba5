#pragma once

#include "attend/api.h"

#include <filesystem>
#include <functional>
#include <string>

namespace attend::train {

/// Reads a log of a run, such as metrics.jsonl or samples.jsonl, line by line and calls `use` with
/// each line, a JSON object with the integer `step`. If `is_finished` is false, a last line without
/// a line break is ignored: a process may be writing it, or was killed while it wrote it. Throws
/// InputError if the file is missing or a line is damaged; the message names the file and the
/// number of the line.
///
///     for_each_json_line("runs/demo/metrics.jsonl", /*is_finished=*/true,
///                        [](const std::string& line) { std::cout << line << "\n"; });
ATTEND_API void for_each_json_line(const std::filesystem::path& path, bool is_finished,
                                   const std::function<void(const std::string& line)>& use);

}  // namespace attend::train
