#pragma once

#include "report/attention_data.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <vector>

namespace attend::app {

/// Data of the report of a run.
struct ReportData {
  nlohmann::ordered_json json;               ///< everything except `attention`
  std::vector<AttentionMatrices> attention;  ///< of the samples in the order of their indices
};

/// Collects the data of a report from the files of a run. If the data of one kind is large, it is
/// reduced: at most 5,000 rows of metrics, 30 evaluations with samples, 1,000 tokens, and 1 MiB of
/// attention weights, for which first samples are left out, and then tokens are grouped to blocks.
/// `notes` in the JSON lists the reductions. Throws InputError if a file of the run is damaged;
/// the message names the file.
ReportData report_data(const std::filesystem::path& directory);

}  // namespace attend::app
