#pragma once

#include <torch/types.h>

#include <limits>
#include <vector>

namespace attend {

/// Scores or probabilities of all tokens (V), to calculate with by hand.
using Numbers = std::vector<double>;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline torch::Tensor tensor(const Numbers& values) {
  return torch::tensor(values, torch::kDouble);
}

}  // namespace attend
