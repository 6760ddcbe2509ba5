#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <string>
#include <vector>

namespace attend {

/// Returns the shape as text, such as "(2, 8)".
inline std::string shape_text(const torch::Tensor& tensor) {
  return fmt::format("({})", fmt::join(tensor.sizes(), ", "));
}

/// Returns the shapes as text, such as "(2, 8) and (2, 5)".
inline std::string shape_text(const std::vector<torch::Tensor>& tensors) {
  std::vector<std::string> shapes;
  for (const auto& tensor : tensors) shapes.push_back(shape_text(tensor));
  return fmt::format("{}", fmt::join(shapes, " and "));
}

/// Describes the inputs, for example as "inputs of shape (2, 8) and (2, 5)".
inline std::string shapes_text(const std::vector<torch::Tensor>& inputs) {
  return fmt::format("{} of shape {}", inputs.size() == 1 ? "an input" : "inputs",
                     shape_text(inputs));
}

}  // namespace attend
