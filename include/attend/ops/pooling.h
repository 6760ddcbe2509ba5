#pragma once

#include "attend/api.h"

#include <torch/types.h>

namespace attend {

/// Returns the mean of the tokens of each sequence, for example as an embedding of a text. `x`
/// (..., T, E); returns (..., E). `key_mask` (..., T), bool: true = token, false = padding;
/// undefined = no padding. Padding may contain any values, also NaN. Returns zeros for a sequence
/// without tokens. Throws c10::ValueError if a shape is wrong, and c10::TypeError if `key_mask` is
/// not bool.
///
///     auto embeddings = mean_pooling(x, key_mask);  // (B, T, E) -> (B, E)
ATTEND_API torch::Tensor mean_pooling(const torch::Tensor& x, const torch::Tensor& key_mask = {});

}  // namespace attend
