#pragma once

#include "attend/ops/attention.h"

#include <optional>

namespace attend {

/// Returns the scaled and masked scores (T, S) before the softmax of `dot_product_attention`,
/// recovered from its weights: an additional key of zeros has score 0, so a score is the log of the
/// ratio of a weight to the weight of that key.
torch::Tensor scores_inside_attention(const torch::Tensor& query, const torch::Tensor& key,
                                      const torch::Tensor& mask = {},
                                      std::optional<double> scale = std::nullopt);

}  // namespace attend
