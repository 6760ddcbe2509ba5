#pragma once

#include "export/onnx/call.h"

namespace attend::onnx {

/// Returns the dimensions that a call reduces; all if none are specified.
std::vector<int64_t> reduced_dimensions(Call& call);
/// Returns the argument keepdim.
bool keepdim(Call& call);

/// Adds a reduction such as ReduceSum over `dimensions`. Returns `value` itself if `dimensions` is
/// empty.
Value reduce(Call& call, const char* kind, Value value, const std::vector<int64_t>& dimensions,
             bool keep);

/// Returns the product of the elements of `sizes` at the indices `dimensions`, as a 0-dimensional
/// tensor.
Value count(Call& call, const Sizes& sizes, const std::vector<int64_t>& dimensions, Type type);

}  // namespace attend::onnx
