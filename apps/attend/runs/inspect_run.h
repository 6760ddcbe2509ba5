#pragma once

#include "attend/io/tensor_info.h"

#include <nlohmann/json.hpp>

#include <filesystem>
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

/// Reports the contents of a run directory. Throws InputError if `directory` is not a run or is
/// damaged.
InspectReport inspect_run(const std::filesystem::path& directory);

/// Reports the state of training and the weights of a checkpoint folder. Throws InputError if the
/// checkpoint is damaged.
InspectReport inspect_checkpoint(const std::filesystem::path& folder);

}  // namespace attend::app
