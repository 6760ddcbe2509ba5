#include "model_export/past_key_values.h"

#include "attend/ops/positions.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

namespace attend {

torch::Tensor PastKeyValues::positions(const torch::Tensor& tokens) const {
  const auto length = at::ones_like(positions_like(past_, -2)).sum();  // S
  return positions_like(tokens, -1) + length;                          // (T)
}

torch::Tensor PastKeyValues::updated() const {
  return at::stack(layers_);
}

void PastKeyValues::after_projection(AttentionContext& context) {
  const SharedKey key("past_positions", context.query, {past_});
  context.args.positions = context.state.share(key, [&] {
    return positions(context.query.select(-3, 0).select(-1, 0));  // (B, H, T, D) -> (B, T)
  });
}

void PastKeyValues::before_attention(AttentionContext& context) {
  const auto past = past_.select(0, context.state.layer);           // (2, B, G, S, D)
  context.key = at::cat({past.select(0, 0), context.key}, -2);      // (B, G, S + T, D)
  context.value = at::cat({past.select(0, 1), context.value}, -2);  // (B, G, S + T, D)
  layers_.push_back(at::stack({context.key, context.value}));
  // Attention needs no positions: its causal mask aligns the last query with the last key.
  context.args.positions.reset();
}

}  // namespace attend
