#pragma once

#include "attend/api.h"
#include "program/exported_program.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attend::program {

/// Finds symbolic expressions of sizes from their values in several runs. Expressions are
/// polynomials of degree 3 or less with integer coefficients. The variables of the polynomials are
/// the dynamic sizes, floor divisions (such as the output sizes of strided convolutions),
/// remainders, square roots, and polynomials clamped to constant limits (such as the sizes of
/// slices).
///
///     SymbolicShapes sizes({"s0"}, {{2, 3, 5, 7}}, {0, 1, 2, 3});
///     sizes.find({17, 25, 41, 57});  // 1 + 8 s0
///     sizes.find({1, 1, 2, 3});      // floor(s0 / 2)
///     sizes.find({2, 3, 4, 4});      // min(s0, 4)
class ATTEND_API SymbolicShapes {
 public:
  /// `values[i][j]` is the value of `symbols[i]` in run j. `fitted`: indices of runs whose sizes
  /// have similar magnitudes. These runs determine the coefficients of polynomials. The expressions
  /// must agree with the values in all runs.
  SymbolicShapes(const std::vector<std::string>& symbols,
                 const std::vector<std::vector<int64_t>>& values, std::vector<std::size_t> fitted);

  /// Returns an expression that equals `values[i]` in each run i, or nullopt if no such expression
  /// is found. `Size::value` is `values[0]`.
  std::optional<Size> find(const std::vector<int64_t>& values);

  /// Adds an expression whose value in run i is `values[i]`. For these values, `find` then returns
  /// this expression. Expressions that are found later may contain the added expression. Does
  /// nothing if an expression with these values is already known, or if all values are equal.
  void add(const Expression& expression, const std::vector<int64_t>& values);

  /// A variable of the polynomials.
  struct Variable {
    Expression expression;
    std::vector<int64_t> values;  ///< value in each run
  };

 private:
  std::vector<const Variable*> all() const;
  /// Returns the symbols and the last of the other elements of `variables_`: a size often depends
  /// on sizes that were found just before.
  std::vector<const Variable*> recent() const;
  std::optional<Expression> find_expression(const std::vector<int64_t>& values);
  std::optional<Expression> find_in_one_variable(const std::vector<int64_t>& values) const;
  std::optional<Expression> find_in_two_variables(const std::vector<int64_t>& values);

  std::vector<std::size_t> fitted_;  // ascending
  std::size_t num_symbols_;
  std::vector<Variable> variables_;  // the symbols, then other expressions
  std::vector<Variable> sums_;       // polynomials of several variables
  std::map<std::vector<int64_t>, std::optional<Expression>> found_;
};

}  // namespace attend::program
