#pragma once

#include "attend/ops/attention.h"

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace attend {

/// Sizes of attention inputs with D = 5: query (B, H, T, D), key (B, G, S, D), value (B, G, S, Dv).
struct AttentionSizes {
  int64_t batch, heads, groups, queries, keys;
  int64_t value_width = 5;  ///< Dv; LibTorch's fused CPU kernel requires Dv = D
};

/// Arguments of a call of dot_product_attention.
struct AttentionCall {
  torch::Tensor query, key, value;
  AttentionArgs args = {};
  ScoreOptions options = {};

  AttentionOutput run(bool need_weights) const;
};

/// An argument or option of attention, and a function that sets it to a random value for the given
/// sizes.
struct AttentionSetting {
  std::string name;
  std::function<void(AttentionCall&, const AttentionSizes&)> draw;

  friend std::ostream& operator<<(std::ostream& stream, const AttentionSetting& self) {
    return stream << self.name;
  }
};

/// Returns all arguments and options that affect masking or scores.
const std::vector<AttentionSetting>& attention_settings();

/// Draws compatible sizes: up to 3 sequences, 4 heads and 6 tokens.
AttentionSizes draw_sizes();

/// Draws float64 query, key and value; no arguments or options are set.
AttentionCall draw_call(const AttentionSizes& sizes);

/// Sets each of `attention_settings` with a probability of 1/2.
void draw_settings(AttentionCall& call, const AttentionSizes& sizes);

}  // namespace attend
