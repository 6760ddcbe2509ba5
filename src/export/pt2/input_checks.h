#pragma once

#include "export/pt2/program.h"

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attend::pt2 {

/// What a program asks of the inputs that its user gives. Sizes that are computed from others, as
/// 2 * s0, are left to the operators.
class InputChecks {
 public:
  /// Throws InputError for inputs of which the program says nothing.
  InputChecks(const Program& program, torch::Device device);

  const std::vector<std::string>& names() const { return names_; }

  /// Of each input what it has to be, as "tokens: int64 (s0 = 1.., 8)".
  std::vector<std::string> signatures() const;

  /// Throws InputError, naming input and dimension, what was expected and what was found.
  void check(const std::vector<torch::Tensor>& inputs) const;

 private:
  struct Dimension {
    std::optional<int64_t> fixed;
    std::optional<std::string> symbol;  // neither: computed from symbols
    Range range;
  };
  struct Expected {
    torch::Dtype dtype;
    std::vector<Dimension> dimensions;
  };

  torch::Device device_;
  std::vector<std::string> names_;
  std::vector<Expected> expected_;  // of each name
};

}  // namespace attend::pt2
