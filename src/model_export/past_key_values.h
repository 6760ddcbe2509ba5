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

  /// Returns the positions (T) of `tokens` (B, T), which follow the cached tokens.
  torch::Tensor positions(const torch::Tensor& tokens) const;
  /// Returns `past` with the keys and values of the new tokens appended, (L, 2, B, G, S + T, D).
  torch::Tensor updated() const;

  void after_projection(AttentionContext& context) override;
  void before_attention(AttentionContext& context) override;

 private:
  torch::Tensor past_;
  // Keys and values of the first layer, of the second layer, ...
  std::vector<torch::Tensor> layers_;   // (B, G, S, D)
  std::vector<torch::Tensor> updated_;  // (B, G, S + T, D)
};

}  // namespace attend
