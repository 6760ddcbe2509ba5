#pragma once

#include "export/onnx/call.h"

namespace attend::onnx {

/// Returns the dimensions over which a call reduces `self`: the argument `dim` or, if `dim` is
/// absent or empty, all dimensions.
std::vector<int64_t> reduced_dimensions(Call& call);
/// Returns the value of the argument `keepdim`.
bool keepdim(Call& call);

/// Adds a node of the operator `kind`, such as ReduceSum, that reduces `value` over `dimensions`.
/// `keep` has the meaning of `keepdim` in PyTorch. Returns `value` itself if `dimensions` is empty.
Value reduce(Call& call, const char* kind, Value value, const std::vector<int64_t>& dimensions,
             bool keep);

/// Returns the p-norm of `value` over `dimensions`: (sum of |x|^p)^(1/p), or the limit of this
/// number if p is infinite. If p is 0, returns the number of nonzero elements.
Value norm_of(Call& call, Value value, double p, const std::vector<int64_t>& dimensions, bool keep);

/// Returns the product of `sizes[d]` over all d in `dimensions`, as a 0-dimensional tensor of type
/// `type`.
Value count(Call& call, const Sizes& sizes, const std::vector<int64_t>& dimensions, Type type);

}  // namespace attend::onnx
