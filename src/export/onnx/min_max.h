#pragma once

#include "export/onnx/call.h"

#include <cstdint>
#include <vector>

namespace attend::onnx {

/// Like `reduce` with the operator `kind` (ReduceMax or ReduceMin), but returns NaN if a reduced
/// element is NaN, as LibTorch does. The result of `kind` for NaN depends on the ONNX runtime.
Value reduce_min_max(Call& call, const char* kind, Value value,
                     const std::vector<int64_t>& dimensions, bool keep);

}  // namespace attend::onnx
