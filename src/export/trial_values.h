#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <array>

namespace attend {

/// Kinds of input values with which an export is verified.
enum class Values { as_in_example, mirrored, one_more, one_less, uniform, half_zero };
inline constexpr std::array kOtherValues{Values::mirrored, Values::one_more, Values::one_less,
                                         Values::uniform, Values::half_zero};

/// Returns false if few operators support the dtype of `input`. Inputs with such a dtype have the
/// values of the example in all comparisons.
ATTEND_API bool supports_other_values(const torch::Tensor& input);

/// Returns a tensor of the same shape with other values. `Values::mirrored` negates floating point
/// numbers and maps an integer x to max + min - x. With `Values::uniform`, all elements equal the
/// first element. With `Values::half_zero`, every second element is 0 or, in an integer tensor, the
/// smallest element. In these three cases, integers stay in the range of the example's values,
/// since the module may reject other integers. `Values::one_more` adds 1, except to integers on a
/// GPU. `Values::one_less` subtracts 1 from integers if all are positive; other tensors of numbers
/// stay unchanged. `Values::mirrored`, `Values::one_more` and `Values::one_less` negate Booleans.
ATTEND_API torch::Tensor with_values(const torch::Tensor& input, Values values);

}  // namespace attend
