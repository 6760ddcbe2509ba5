#pragma once

#include "attend/io/tensor_info.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace attend::app {

/// The result of `attend inspect`, as text and as JSON.
struct InspectReport {
  std::string header;           ///< lines above the table of tensors
  nlohmann::ordered_json json;  ///< everything except the tensors and their totals
  bool has_tensors = true;      ///< false for a run without weights
  std::vector<TensorInfo> tensors;
  std::string footer;  ///< lines below the totals
};

/// Formats a line with a label column: "task        senses\n".
std::string report_line(const std::string& label, const std::string& text);

}  // namespace attend::app
