#pragma once

#include "export/program/program.h"

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attend::program {

/// What a program asks of the inputs that its user gives. Sizes that are computed from others, as
/// 2 * s0, are left to the operators.
class InputChecks {
 public:
  /// Throws InputError for inputs of which the program says nothing.
  InputChecks(const Program& program, torch::Device device);

  std::vector<std::string> names() const;

  /// Of each input what it has to be, as "tokens: int64 (s0 = 1.., 8)", or "count: number s1 =
  /// 0..".
  std::vector<std::string> signatures() const;

  /// Throws InputError, naming input and dimension, what was expected and what was found.
  void check(const std::vector<torch::Tensor>& inputs) const;

 private:
  /// Of a dimension, or of a number.
  struct Expected {
    std::optional<int64_t> fixed;
    std::optional<std::string> symbol;  // neither: computed from symbols
    Range range;
  };
  struct ExpectedInput {
    std::string name;
    torch::Dtype dtype;
    std::vector<Expected> dimensions;
    std::optional<Expected> number;  // a tensor without dimensions stands for it
  };

  static Expected expected_of(const Size& size, const Program& program);
  static std::string text_of(const Expected& expected);

  torch::Device device_;
  std::vector<ExpectedInput> inputs_;
};

}  // namespace attend::program
