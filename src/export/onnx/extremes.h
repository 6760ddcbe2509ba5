#pragma once

#include "export/onnx/call.h"

#include <cstdint>
#include <vector>

namespace attend::onnx {

/// `reduce` by ReduceMax or ReduceMin. What has a NaN among it is NaN, as in LibTorch; runtimes do
/// not agree on that.
Value reduce_to_extreme(Call& call, const char* kind, Value value,
                        const std::vector<int64_t>& dimensions, bool keep);

}  // namespace attend::onnx
