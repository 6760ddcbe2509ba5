#pragma once

#include "findings.h"

#include <filesystem>

namespace attend::app {

/// What a run directory holds. Throws InputError if it is none, or damaged.
InspectReport inspect_run(const std::filesystem::path& directory);

}  // namespace attend::app
