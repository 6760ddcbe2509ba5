#pragma once

#include "attend/api.h"
#include "attend/ops/attention.h"

#include <torch/types.h>

#include <optional>

namespace attend {

/// Returns the output of attention if a kernel of this library computes it faster than LibTorch:
/// for short sequences on a CPU without mask and dropout. Otherwise returns std::nullopt. Shapes:
/// see `dot_product_attention`. `causal`: the query t has the keys 0 to t.
ATTEND_API std::optional<torch::Tensor> short_attention(const torch::Tensor& query,
                                                        const torch::Tensor& key,
                                                        const torch::Tensor& value, bool causal,
                                                        const ScoreOptions& options);

}  // namespace attend
