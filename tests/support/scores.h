#pragma once

#include "attend/ops/attention.h"

#include <optional>

namespace attend {

/// Returns the scaled and masked scores (T, S) before the softmax of `dot_product_attention`,
/// computed from its weights. For this, adds a key of zeros, which has score 0. The score of any
/// other key is log(weight of the key / weight of the added key).
torch::Tensor scores_inside_attention(const torch::Tensor& query, const torch::Tensor& key,
                                      const torch::Tensor& mask = {},
                                      std::optional<double> scale = std::nullopt);

}  // namespace attend
