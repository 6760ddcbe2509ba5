#pragma once

#include "attend/io/tensor_tree.h"

#include <nlohmann/json.hpp>

#include <string>

namespace attend::app {

/// Tensors as people read them: a line for each node of the tree down to `depth` levels, with
/// shape, dtype, count, bytes and share.
std::string tensor_table(const TensorTree& tree, int64_t depth);

/// Tensors as programs read them: an array with an object each, and exact numbers.
nlohmann::ordered_json tensors_json(const std::vector<TensorInfo>& tensors);

nlohmann::ordered_json totals_json(const TensorTotals& totals);

}  // namespace attend::app
