#pragma once

#include "attend/train/run_directory.h"
#include "report/report_data.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace attend::app {

/// Returns the attention weights of the model for `samples`, an array of objects with the keys
/// `input` and `output`. Adds a line to `notes` for each reduction.
std::vector<AttentionMatrices> attention_of(train::Run& run, const nlohmann::json& samples,
                                            std::vector<std::string>& notes);

/// Returns an entry of `attention` in the JSON of the report.
nlohmann::ordered_json to_json(const AttentionMatrices& matrices);

}  // namespace attend::app
