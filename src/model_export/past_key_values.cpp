#include "model_export/past_key_values.h"

#include "attend/ops/positions.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include <utility>

namespace attend {

PastKeyValues::PastKeyValues(const torch::Tensor& past)
    : layers_(past.flatten(0, 1).unbind()), updated_(layers_.size()) {}

PastKeyValues::PastKeyValues(std::vector<torch::Tensor> layers, const torch::Tensor& positions,
                             const torch::Tensor& key_mask)
    : layers_(std::move(layers)),
      updated_(layers_.size()),
      positions_(positions),
      key_mask_(key_mask) {}

torch::Tensor PastKeyValues::positions(const torch::Tensor& tokens) const {
  if (positions_.defined()) return positions_;
  const auto length = at::ones_like(positions_like(layers_.front(), -2)).sum();  // S
  return positions_like(tokens, -1) + length;                                    // (T)
}

torch::Tensor PastKeyValues::updated() const {
  return at::stack(updated_).unflatten(0, {-1, 2});
}

void PastKeyValues::after_projection(AttentionContext& context) {
  const SharedKey key("past_positions", context.query, {layers_.front()});
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
  context.args.key_mask = key_mask_;
}

}  // namespace attend
