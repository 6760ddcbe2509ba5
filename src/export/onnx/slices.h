#pragma once

#include "export/onnx/call.h"
#include "export/program/node_arguments.h"

#include <cstdint>
#include <limits>

namespace attend::onnx {

// Values of the argument `end` of `slice`. With kEnd, a slice with a positive step extends to the
// end of the dimension. With kBeforeBegin, a slice with a negative step extends to the beginning.
using program::kEnd;
constexpr auto kBeforeBegin = std::numeric_limits<int64_t>::min();

/// Returns the end of the slice that narrow(start, length) is. With a negative start, start +
/// length is 0 if the slice includes the last element. An end of 0 would mean an empty slice.
inline int64_t end_of_narrow(int64_t start, int64_t length) {
  return start < 0 && start + length == 0 ? kEnd : start + length;
}

/// Returns the slice start:end:step of `value` along `dimension`, as in Python.
Value slice(Call& call, Value value, int64_t dimension, int64_t start, int64_t end,
            int64_t step = 1);

/// As above, but with bounds that are int64 tensors of shape (1).
Value slice(Call& call, Value value, int64_t dimension, Value start, Value end, int64_t step = 1);

/// As above, with the arguments `start`, `end` and `step` of the call, each of which may be absent.
Value slice_as_called(Call& call, Value value, int64_t dimension);

}  // namespace attend::onnx
