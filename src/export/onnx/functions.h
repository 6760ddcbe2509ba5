#pragma once

#include "export/onnx/call.h"

namespace attend::onnx {

// Element-wise functions.

/// Returns x rounded towards zero.
Value truncated(Call& call, Value x);
/// Returns a / b of integers, rounded down.
Value floor_divided(Call& call, Value a, Value b);
/// Returns the angle of the point (x, y), between -pi and pi.
Value atan2(Call& call, Value y, Value x);
/// Returns log(1 + x), accurate for small x.
Value log1p(Call& call, Value x);
/// Returns log(1 + x) for x in [-1, 1], accurate for small x.
Value log1p_of_fraction(Call& call, Value x);

}  // namespace attend::onnx
