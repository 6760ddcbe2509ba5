#pragma once

#include "attend/nn/attention_hook.h"

#include <vector>

namespace attend {

/// Keys and values of earlier tokens as one tensor that goes in and comes out longer, so that a
/// trace holds at any length: `KvCache` writes to memory of a fixed size, and counts in C++.
class GrowingCache : public AttentionHook {
 public:
  /// `past` (L, 2, B, G, S, D): of each layer keys, then values.
  explicit GrowingCache(torch::Tensor past) : past_(std::move(past)) {}

  /// Where tokens (B, T) that follow stand, in steps: (T).
  torch::Tensor positions(const torch::Tensor& tokens) const;
  /// The past with what the layers have added since, (L, 2, B, G, S + T, D).
  torch::Tensor longer_past() const;

  void after_projection(AttentionContext& context) override;
  void before_attention(AttentionContext& context) override;

 private:
  torch::Tensor past_;
  std::vector<torch::Tensor> layers_;  // (2, B, G, S + T, D)
};

}  // namespace attend
