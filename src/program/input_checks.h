#pragma once

#include "attend/api.h"
#include "program/exported_program.h"

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attend::program {

/// Checks user inputs against the program's metadata and range constraints. Derived sizes, such as
/// twice the size of another dimension, are not checked.
class ATTEND_API InputChecks {
 public:
  /// Throws InputError if `program` does not contain the metadata of an input.
  InputChecks(const ExportedProgram& program, torch::Device device);

  std::vector<std::string> names() const;

  /// Returns a description of each input, such as "tokens: int64 (s0 = 1.., 8)" for a tensor or
  /// "count: number s1 = 0.." for a number.
  std::vector<std::string> signatures() const;

  /// Throws InputError if the inputs do not match the program. The message names the input, the
  /// value expected and the value found. For a wrong size, the message also names the dimension.
  void check(const std::vector<torch::Tensor>& inputs) const;

 private:
  /// Expected size of a dimension, or expected value of a SymInt.
  struct Expected {
    std::optional<int64_t> fixed;
    std::optional<std::string> symbol;  // `fixed` and `symbol` are not set for derived sizes
    Range range;
  };
  struct ExpectedInput {
    std::string name;
    torch::Dtype dtype;
    std::vector<Expected> dimensions;
    std::optional<Expected> number;  // set for a SymInt, which is passed as a 0-dimensional tensor
  };

  static Expected expected_of(const Size& size, const ExportedProgram& program);
  static std::string text_of(const Expected& expected);

  torch::Device device_;
  std::vector<ExpectedInput> inputs_;
};

}  // namespace attend::program
