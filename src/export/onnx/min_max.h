#pragma once

#include "export/onnx/call.h"

#include <cstdint>
#include <vector>

namespace attend::onnx {

/// Like `reduce` with ReduceMax or ReduceMin, but returns NaN if a reduced element is NaN, as
/// LibTorch does. ONNX runtimes return different results in this case.
Value reduce_min_max(Call& call, const char* kind, Value value,
                     const std::vector<int64_t>& dimensions, bool keep);

}  // namespace attend::onnx
