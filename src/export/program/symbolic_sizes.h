#pragma once

#include "export/program/program.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attend::program {

/// Finds how sizes depend on the dynamic ones from what both were in several runs: as polynomials,
/// up to the third degree, of whole coefficients, in the dynamic sizes and in what these are when
/// divided and rounded down, as behind a convolution with strides.
///
///     SymbolicSizes sizes({"s0"}, {{2, 3, 5, 7}});
///     sizes.find({17, 25, 41, 57});  // 1 + 8 s0
///     sizes.find({1, 1, 2, 3});      // s0 // 2
class SymbolicSizes {
 public:
  /// `values` are of each symbol what it was in each run.
  SymbolicSizes(const std::vector<std::string>& symbols,
                const std::vector<std::vector<int64_t>>& values);

  /// A size that was `values` in the same runs, the first of which gives the hint; nothing if it
  /// is none of the above.
  std::optional<Size> find(const std::vector<int64_t>& values);

 private:
  /// What polynomials are made of.
  struct Variable {
    std::string text;             // as SymPy writes it
    std::vector<int64_t> values;  // in each run
  };

  std::optional<std::string> find_expression(const std::vector<int64_t>& values);
  std::optional<std::string> find_polynomial(const std::vector<int64_t>& values) const;
  std::optional<std::string> find_quotient(const std::vector<int64_t>& values);

  std::vector<Variable> variables_;  // the symbols, then quotients as they are found
  std::map<std::vector<int64_t>, std::optional<std::string>> found_;
};

}  // namespace attend::program
