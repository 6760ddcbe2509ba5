#pragma once

#include "attend/train/run_directory.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace attend::app {

/// Returns the entry `embeddings` in the JSON of the report: the first 1,000 tokens in two
/// dimensions, and their nearest neighbors. The dimensions are the principal components of the
/// embeddings of `run`, whose weights are those of `step`. The snapshots in `directory` of earlier
/// steps are projected on the same components. Adds a line to `notes` for each reduction.
nlohmann::ordered_json embeddings_of(const train::Run& run, const std::filesystem::path& directory,
                                     int64_t step, std::vector<std::string>& notes);

}  // namespace attend::app
