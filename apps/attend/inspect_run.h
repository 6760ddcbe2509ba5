#pragma once

#include "inspect_report.h"

#include <filesystem>

namespace attend::app {

/// Reports the contents of a run directory. Throws InputError if `directory` is not a run or is
/// damaged.
InspectReport inspect_run(const std::filesystem::path& directory);

}  // namespace attend::app
