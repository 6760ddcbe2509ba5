#pragma once

#include "attend/api.h"
#include "pt2/program/exported_program.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attend::program {

/// Finds symbolic expressions of sizes from their values in several runs. Expressions are
/// polynomials of degree 3 or less, with integer coefficients, of the dynamic sizes and of floor
/// divisions of them, such as the output sizes of strided convolutions.
///
///     SymbolicShapes sizes({"s0"}, {{2, 3, 5, 7}});
///     sizes.find({17, 25, 41, 57});  // 1 + 8 s0
///     sizes.find({1, 1, 2, 3});      // floor(s0 / 2)
class ATTEND_API SymbolicShapes {
 public:
  /// `values[i][j]` is the value of `symbols[i]` in run j.
  SymbolicShapes(const std::vector<std::string>& symbols,
                 const std::vector<std::vector<int64_t>>& values);

  /// Returns an expression that equals `values[i]` in run i, or nullopt if there is none.
  /// `Size::value` is `values[0]`.
  std::optional<Size> find(const std::vector<int64_t>& values);

 private:
  /// A variable of the polynomials.
  struct Variable {
    std::string text;             // SymPy expression
    std::vector<int64_t> values;  // value in each run
  };

  std::optional<std::string> find_expression(const std::vector<int64_t>& values);
  std::optional<std::string> find_polynomial(const std::vector<int64_t>& values) const;
  std::optional<std::string> find_quotient(const std::vector<int64_t>& values);

  std::vector<Variable> variables_;  // the symbols, then the quotients found so far
  std::map<std::vector<int64_t>, std::optional<std::string>> found_;
};

}  // namespace attend::program
