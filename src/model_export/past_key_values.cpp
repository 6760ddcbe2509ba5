#include "model_export/past_key_values.h"

#include "attend/ops/positions.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

namespace attend {

PastKeyValues::PastKeyValues(const torch::Tensor& past)
    : past_(past), layers_(past.flatten(0, 1).unbind()), updated_(layers_.size()) {}

torch::Tensor PastKeyValues::positions(const torch::Tensor& tokens) const {
  const auto length = at::ones_like(positions_like(past_, -2)).sum();  // S
  return positions_like(tokens, -1) + length;                          // (T)
}

torch::Tensor PastKeyValues::updated() const {
  return at::stack(updated_).unflatten(0, {-1, 2});
}

void PastKeyValues::after_projection(AttentionContext& context) {
  const SharedKey key("past_positions", context.query, {past_});
  context.args.positions = context.state.share(key, [&] {
    return positions(context.query.select(-3, 0).select(-1, 0));  // (B, H, T, D) -> (B, T)
  });
}

void PastKeyValues::before_attention(AttentionContext& context) {
  auto index = 2 * static_cast<std::size_t>(context.state.layer);
  for (auto* vectors : {&context.key, &context.value}) {
    *vectors = at::cat({layers_.at(index), *vectors}, -2);  // (B, G, S + T, D)
    updated_[index++] = *vectors;
  }
  // Attention needs no positions: its causal mask aligns the last query with the last key.
  context.args.positions.reset();
}

}  // namespace attend
