#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <optional>

namespace attend {

/// Returns the attention output (B, H, 1, D) of one query per sequence, without masks. Returns an
/// undefined tensor if the kernel does not support the tensors, or if gradients are computed.
/// `query` (B, H, 1, D), `key` and `value` (B, G, S, D).
ATTEND_API torch::Tensor attend_one_query(const torch::Tensor& query, const torch::Tensor& key,
                                          const torch::Tensor& value, std::optional<double> scale);

}  // namespace attend
