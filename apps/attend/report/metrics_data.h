#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace attend::app {

/// Metrics of a run.
struct MetricsData {
  /// The entries `training` and `evaluations` in the JSON of the report, each only if it has rows.
  nlohmann::ordered_json columns = nlohmann::ordered_json::object();
  std::optional<int64_t> last_step = {};  ///< last step with metrics of training
  std::optional<double> seconds = {};     ///< wall time until `last_step`
  std::optional<int64_t> best_step = {};  ///< evaluation with the lowest validation loss
};

/// Maximum number of rows of metrics of each kind on a page.
inline constexpr std::size_t kMaxMetricsRows = 5000;

/// Reads metrics.jsonl line by line. The file may be missing. `is_finished`: see
/// `for_each_json_line`. At most `max_rows` rows of each kind are kept; a line is added to `notes`
/// for each reduction. Throws InputError if a line is damaged; the message names the file.
MetricsData metrics_of(const std::filesystem::path& path, bool is_finished, std::size_t max_rows,
                       std::vector<std::string>& notes);

}  // namespace attend::app
