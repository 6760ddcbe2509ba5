#pragma once

#include "export/onnx/call.h"

namespace attend::onnx {

// What a call reduces.

/// The dimensions that are named; all if none are.
std::vector<int64_t> reduced(Call& call);
/// Whether they stay, with one element.
bool keeps(Call& call);

/// A reduction as ReduceSum over these dimensions, which are kept as ones or go; `value` itself if
/// there are none.
Value reduce(Call& call, const char* kind, Value value, const std::vector<int64_t>& dimensions,
             bool keep);

/// How many elements these dimensions of a tensor have together.
Value count(Call& call, const Sizes& sizes, const std::vector<int64_t>& dimensions, Type type);

}  // namespace attend::onnx
