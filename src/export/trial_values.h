#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <array>

namespace attend {

/// Kinds of input values with which an export is verified.
enum class Values { as_in_example, mirrored, one_more, one_less, uniform, half_zero };
inline constexpr std::array kOtherValues{Values::mirrored, Values::one_more, Values::one_less,
                                         Values::uniform, Values::half_zero};

/// Returns false for dtypes that few operators support. Inputs of these dtypes always have the
/// values of the example.
ATTEND_API bool supports_other_values(const torch::Tensor& input);

/// Returns a tensor of the same shape with other values. `Values::mirrored` negates floating point
/// numbers and maps an integer x to max + min - x. With `Values::uniform`, all elements equal the
/// first. With `Values::half_zero`, every second element is 0, or the minimum of integers. In these
/// three cases, integers stay in the range of the example's values, since the module may reject
/// other integers. Returns the input itself if it is empty, if its dtype is not supported, or if
/// integers must not be decreased below 0 (`Values::one_less`) or increased on a GPU
/// (`Values::one_more`). Booleans are inverted, except with `uniform` and `half_zero`.
ATTEND_API torch::Tensor with_values(const torch::Tensor& input, Values values);

}  // namespace attend
