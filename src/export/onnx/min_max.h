#pragma once

#include "export/onnx/call.h"

#include <cstdint>
#include <vector>

namespace attend::onnx {

/// As `reduce` with ReduceMax or ReduceMin, but returns NaN if a reduced element is NaN, as in
/// LibTorch. ONNX runtimes differ in this case.
Value reduce_min_max(Call& call, const char* kind, Value value,
                     const std::vector<int64_t>& dimensions, bool keep);

}  // namespace attend::onnx
