#pragma once

#include "export/pt2/program.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attend::pt2 {

/// A size that may be another one when a program runs.
struct Symbol {
  std::string name;  ///< as in s0
  Range range;
};

/// A number for each symbol, and what a size was there.
struct Sample {
  std::vector<int64_t> symbols;
  int64_t size = 0;
};

/// Finds how a size depends on the symbols from what it was at several of their values, the first
/// of which gives the hint: a polynomial of whole coefficients, up to the third degree. Nothing if
/// it is none.
///
///     fit_size({{"s0", {}}}, {{{2}, 17}, {{3}, 25}, {{5}, 41}, {{7}, 57}})  // 8 s0 + 1
std::optional<Size> fit_size(const std::vector<Symbol>& symbols,
                             const std::vector<Sample>& samples);

}  // namespace attend::pt2
