#pragma once

#include "attend/api.h"
#include "pt2/program/exported_program.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attend::program {

/// Finds symbolic expressions of sizes from their values in several runs: polynomials of degree 3
/// or less with integer coefficients in the dynamic sizes and in floor divisions of them, as the
/// output sizes of strided convolutions.
///
///     SymbolicShapes sizes({"s0"}, {{2, 3, 5, 7}});
///     sizes.find({17, 25, 41, 57});  // 1 + 8 s0
///     sizes.find({1, 1, 2, 3});      // s0 // 2
class ATTEND_API SymbolicShapes {
 public:
  /// `values[i]` are the values of `symbols[i]` by run.
  SymbolicShapes(const std::vector<std::string>& symbols,
                 const std::vector<std::vector<int64_t>>& values);

  /// Returns the expression of a size that was `values` by run, with the first as its hint, or
  /// nullopt if there is none.
  std::optional<Size> find(const std::vector<int64_t>& values);

 private:
  /// A variable of the polynomials.
  struct Variable {
    std::string text;             // SymPy expression
    std::vector<int64_t> values;  // by run
  };

  std::optional<std::string> find_expression(const std::vector<int64_t>& values);
  std::optional<std::string> find_polynomial(const std::vector<int64_t>& values) const;
  std::optional<std::string> find_quotient(const std::vector<int64_t>& values);

  std::vector<Variable> variables_;  // the symbols, then the quotients found so far
  std::map<std::vector<int64_t>, std::optional<std::string>> found_;
};

}  // namespace attend::program
