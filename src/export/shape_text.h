#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <string>
#include <vector>

namespace attend {

/// As in messages: (2, 8).
inline std::string shape_text(const torch::Tensor& tensor) {
  return fmt::format("({})", fmt::join(tensor.sizes(), ", "));
}

/// As in messages: inputs of shape (2, 8) and (2, 5).
inline std::string shapes_text(const std::vector<torch::Tensor>& inputs) {
  std::vector<std::string> shapes;
  for (const auto& input : inputs) shapes.push_back(shape_text(input));
  return fmt::format("{} of shape {}", inputs.size() == 1 ? "an input" : "inputs",
                     fmt::join(shapes, " and "));
}

}  // namespace attend
