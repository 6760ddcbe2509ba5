#pragma once

#include "attend/io/tensor_info.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace attend::app {

/// What `attend inspect` found, for people and for programs.
struct InspectReport {
  std::string head;             ///< lines that stand before the table of tensors
  nlohmann::ordered_json json;  ///< all but the tensors and their sums
  bool has_tensors = true;      ///< false for a run that has no weights yet
  std::vector<TensorInfo> tensors;
  std::string tail;  ///< lines that stand after the sums
};

/// A line of a report: "task        senses\n".
std::string report_line(const std::string& label, const std::string& text);

}  // namespace attend::app
