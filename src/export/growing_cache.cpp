#include "export/growing_cache.h"

#include "attend/ops/positions.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

namespace attend {

torch::Tensor GrowingCache::positions(const torch::Tensor& tokens) const {
  const auto length = at::ones_like(index_along(past_, -2)).sum();  // S
  return index_along(tokens, -1) + length;                          // (T)
}

torch::Tensor GrowingCache::longer_past() const {
  return at::stack(layers_);
}

void GrowingCache::on_heads(Heads& heads) {
  heads.args.positions = positions(heads.query.select(-3, 0).select(-1, 0));  // of (B, T)
}

void GrowingCache::on_scores(Heads& heads) {
  const auto past = past_.select(0, heads.state.layer);         // (2, B, G, S, D)
  heads.key = at::cat({past.select(0, 0), heads.key}, -2);      // (B, G, S + T, D)
  heads.value = at::cat({past.select(0, 1), heads.value}, -2);  // (B, G, S + T, D)
  layers_.push_back(at::stack({heads.key, heads.value}));
  // Queries and keys end together, which needs no positions.
  heads.args.positions.reset();
}

}  // namespace attend
