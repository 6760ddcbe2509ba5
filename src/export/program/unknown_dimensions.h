#pragma once

#include "program/exported_program.h"

namespace attend::program {

/// Handling of a dynamic size for which `SymbolicShapes` finds no expression.
enum class UnknownDimensions {
  unbacked,  ///< use a new unbacked symbol, since a .pt2 archive needs expressions of all sizes
  /// Use a placeholder as expression. Two sizes that are equal to each other in every run have the
  /// same placeholder. Strides have the example's values, since finding the expressions of strides
  /// is slow.
  placeholder,
};

inline constexpr const char* kUnknown = "unknown";

/// Returns true if a size has a placeholder as expression.
inline bool is_unknown(const Size& size) {
  return size.expression.is(Expression::Kind::unbacked) &&
         size.expression.text().starts_with(kUnknown);
}

}  // namespace attend::program
