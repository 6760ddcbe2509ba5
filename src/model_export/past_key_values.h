#pragma once

#include "attend/nn/attention_hook.h"

#include <vector>

namespace attend {

/// KV cache as an input and output tensor, like Hugging Face's past_key_values. Unlike
/// `KvCache`, which has preallocated memory and counts tokens in C++, it can be traced.
class PastKeyValues : public AttentionHook {
 public:
  /// `past` (L, 2, B, G, S, D): keys and values of each layer.
  explicit PastKeyValues(const torch::Tensor& past);
  /// `layers`: keys (B, G, S, D) of the first layer, its values, keys of the second layer, ...
  /// `positions` (B, T): of the new tokens. `key_mask` (B, S + T): bool, true = token.
  PastKeyValues(std::vector<torch::Tensor> layers, const torch::Tensor& positions,
                const torch::Tensor& key_mask);

  /// Returns the positions (T) of `tokens` (B, T), which follow the cached tokens, or those that
  /// were passed to the constructor.
  torch::Tensor positions(const torch::Tensor& tokens) const;
  /// Returns `layers` with the keys and values of the new tokens appended, (B, G, S + T, D) each.
  const std::vector<torch::Tensor>& updated_layers() const { return updated_; }
  /// Returns them stacked, (L, 2, B, G, S + T, D).
  torch::Tensor updated() const;

  void after_projection(AttentionContext& context) override;
  void before_attention(AttentionContext& context) override;

 private:
  // Keys and values of the first layer, of the second layer, ...
  std::vector<torch::Tensor> layers_;   // (B, G, S, D)
  std::vector<torch::Tensor> updated_;  // (B, G, S + T, D)
  torch::Tensor positions_;             // (B, T), may be undefined
  torch::Tensor key_mask_;              // (B, S + T), may be undefined
};

}  // namespace attend
