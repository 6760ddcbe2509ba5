#pragma once

#include "attend/ops/attention.h"

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace attend {

/// The sizes of an attention's inputs (B, H, T, D), (B, G, S, D), (B, G, S, Dv) with D = 5.
struct AttentionSizes {
  int64_t batch, heads, groups, queries, keys;
  int64_t value_width = 5;  ///< LibTorch's fused kernel on the CPU wants it to be D
};

/// All that is given to a call of attention.
struct AttentionCall {
  torch::Tensor query, key, value;
  AttentionArgs args = {};
  ScoreOptions options = {};

  AttentionOutput run(bool need_weights) const;
};

/// One argument or option, and how to draw a value for it that fits the sizes.
struct AttentionSetting {
  std::string name;
  std::function<void(AttentionCall&, const AttentionSizes&)> draw;

  friend std::ostream& operator<<(std::ostream& stream, const AttentionSetting& self) {
    return stream << self.name;
  }
};

/// Every argument and option that changes which keys are seen, or how scores become weights.
const std::vector<AttentionSetting>& attention_settings();

/// Sizes that fit each other: up to 3 rows, 4 heads and 6 tokens.
AttentionSizes draw_sizes();

/// A call in float64 with nothing set.
AttentionCall draw_call(const AttentionSizes& sizes);

/// Sets each setting, or not.
void draw_settings(AttentionCall& call, const AttentionSizes& sizes);

}  // namespace attend
