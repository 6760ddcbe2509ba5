#pragma once

#include "export/onnx/call.h"
#include "export/program/node_arguments.h"

#include <cstdint>
#include <limits>

namespace attend::onnx {

// Values of `end` in `slice`: kEnd for slices that include the last element (with a positive step),
// kBeforeBegin for slices that include the first element (with a negative step).
using program::kEnd;
constexpr auto kBeforeBegin = std::numeric_limits<int64_t>::min();

/// Returns the slice start:end:step of `value` along `dimension`, as in Python.
Value slice(Call& call, Value value, int64_t dimension, int64_t start, int64_t end,
            int64_t step = 1);

}  // namespace attend::onnx
