#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <functional>
#include <string>

namespace attend {

/// Returns the largest absolute difference of two outputs. Throws std::runtime_error unless shapes
/// and dtypes are equal and |found - expected| <= tolerance * min(1 + |expected|, largest) for each
/// element, where `largest` is the largest absolute value of the finite elements of the tensor
/// `expected`. The real and imaginary parts of complex numbers are compared as separate elements.
/// Integers and Booleans must be equal. Equal infinities and two NaNs count as equal.
/// `beginning`: the beginning of the message, such as "for x, the exported program returns"; the
/// message continues with what was found and what was expected. `rounding` returns by how much
/// rounding errors can change `expected`; it is called at most once, and only if a difference
/// exceeds the tolerance. Differences of up to 4 times this number are then allowed, but at most
/// 100 times the tolerance. The comparison needs little memory in addition to the tensors.
ATTEND_API double compare(const torch::Tensor& found, const torch::Tensor& expected,
                          double tolerance, const std::string& beginning,
                          const std::function<double()>& rounding = {});

}  // namespace attend
