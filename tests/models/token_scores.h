#pragma once

#include <torch/types.h>

#include <limits>
#include <vector>

namespace attend {

/// Logits or probabilities of all tokens of the vocabulary (V), for calculations in plain loops.
using Numbers = std::vector<double>;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline torch::Tensor tensor(const Numbers& values) {
  return torch::tensor(values, torch::kDouble);
}

}  // namespace attend
