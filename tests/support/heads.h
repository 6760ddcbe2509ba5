#pragma once

#include "attend/nn/multihead_attention.h"

#include <string>

namespace attend {

/// Options of random small widths, with heads that share keys and values or do not.
MultiheadAttentionOptions draw_attention_options();

/// An attention in float64 whose parameters, those of its parts too, are all drawn from N(0, 0.25):
/// the initial ones would hide what is not used.
MultiheadAttention lively_attention(const MultiheadAttentionOptions& options);

/// Queries, keys and values before any part changes them.
struct ProjectedHeads {
  torch::Tensor query, key, value;  ///< (B, H, T, D); those that heads share are repeated
};
ProjectedHeads project_heads(const MultiheadAttention& attention, const torch::Tensor& x);

/// The heads' results (B, H, T, D) through the output projection: (B, T, E).
torch::Tensor join_heads(const MultiheadAttention& attention, const torch::Tensor& results);

/// The parameter of this name in the state dict.
inline torch::Tensor parameter_of(const torch::nn::Module& module, const std::string& name) {
  return module.named_parameters()[name].detach();
}

}  // namespace attend
