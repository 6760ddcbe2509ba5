#pragma once

#include "attend/ops/attention.h"

#include <optional>

namespace attend {

/// The scores, scaled and masked, that `dot_product_attention` puts into its softmax, read
/// back from its weights (T, S). A further key of zeros has the score 0, so the logarithm of a
/// weight over that key's weight is a score.
torch::Tensor scores_inside_attention(const torch::Tensor& query, const torch::Tensor& key,
                                      const torch::Tensor& mask = {},
                                      std::optional<double> scale = std::nullopt);

}  // namespace attend
