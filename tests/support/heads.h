#pragma once

#include "attend/nn/multihead_attention.h"

#include <string>

namespace attend {

/// Draws small random widths and head counts, with or without grouped key-value heads.
MultiheadAttentionOptions draw_attention_options();

/// Returns a MultiheadAttention in float64. All parameters, including the parameters of its hooks,
/// are drawn from a normal distribution with standard deviation 0.5. With the usual initial values,
/// such as 0, a test would not detect that a parameter is not used.
MultiheadAttention randomized_attention(const MultiheadAttentionOptions& options);

/// Queries, keys and values after the projection, before any hook.
struct ProjectedHeads {
  torch::Tensor query, key, value;  ///< (B, H, T, D), with shared key-value heads repeated
};
/// Applies the projections of `attention` to x (B, T, E).
ProjectedHeads project_heads(const MultiheadAttention& attention, const torch::Tensor& x);

/// Applies the output projection to the heads' outputs (B, H, T, D); returns (B, T, E).
torch::Tensor join_heads(const MultiheadAttention& attention, const torch::Tensor& results);

/// Returns the parameter with this name, detached.
inline torch::Tensor parameter_of(const torch::nn::Module& module, const std::string& name) {
  return module.named_parameters()[name].detach();
}

}  // namespace attend
