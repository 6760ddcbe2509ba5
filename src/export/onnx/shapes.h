#pragma once

#include "export/onnx/call.h"

#include <numeric>
#include <vector>

namespace attend::onnx {

/// Returns 0, 1, ..., rank - 1.
inline std::vector<int64_t> all_dimensions(int64_t rank) {
  std::vector<int64_t> all(static_cast<std::size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Dimension arguments must not be negative, except in `squeeze`.

Value transpose(Call& call, Value value, const std::vector<int64_t>& order);
/// Swaps two dimensions of a value with `rank` dimensions.
Value swap(Call& call, Value value, int64_t rank, int64_t one, int64_t other);
Value unsqueeze(Call& call, Value value, const std::vector<int64_t>& dimensions);
Value squeeze(Call& call, Value value, const std::vector<int64_t>& dimensions);

}  // namespace attend::onnx
