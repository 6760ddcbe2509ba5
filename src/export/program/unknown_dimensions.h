#pragma once

namespace attend::program {

/// Handling of a dynamic size for which `SymbolicShapes` finds no expression.
enum class UnknownDimensions {
  reject,  ///< throw an error, since a .pt2 archive needs all sizes
  /// Use a placeholder as its expression, the same one for equal sizes. Strides keep the example's
  /// values, since finding them is slow.
  allow,
};

}  // namespace attend::program
