#pragma once

#include "export/onnx/call.h"

namespace attend::onnx {

// Of each element.

/// What is left of real numbers without their fractions.
Value truncated(Call& call, Value x);
/// log(1 + x), as exact for a small x as for others.
Value log1p(Call& call, Value x);
/// The same of what exp gave a number that is not above zero, so that it is 0 .. 1.
Value log1p_of_fraction(Call& call, Value x);

}  // namespace attend::onnx
