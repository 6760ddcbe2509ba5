#pragma once

#include "attend/io/tensor_tree.h"

#include <nlohmann/json.hpp>

#include <string>

namespace attend::app {

/// Formats a table with a row per node of the tree, down to `depth` levels. The columns are name,
/// shape, dtype, elements, bytes, and the percentage of all elements.
std::string tensor_table(const TensorTree& tree, int64_t depth);

/// Returns a JSON array with an object per tensor.
nlohmann::ordered_json tensors_json(const std::vector<TensorInfo>& tensors);

/// Returns the totals as a JSON object. Omits the numbers of parameters and buffer elements if all
/// tensors have `TensorRole::unknown`.
nlohmann::ordered_json totals_json(const TensorTotals& totals);

}  // namespace attend::app
