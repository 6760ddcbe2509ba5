#pragma once

#include "attend/models/stack_config.h"
#include "attend/nn/kv_cache.h"
#include "nn/checks.h"
#include "nn/stack_cache.h"

#include <cmath>

namespace attend {

// Functions used by the models that decode with a KV cache.

/// Extends `cache` by `tokens` (B, T) and returns the logits of the last `logits_to_keep`
/// positions; 0 = all. `hidden()` returns the hidden states (B, T, E); `logits(x)` returns the
/// logits of hidden states x. If `hidden` or `logits` throws, the cache is unchanged. `name`: name
/// of `tokens` in error messages.
template <typename Hidden, typename Logits>
torch::Tensor decode_step(const char* name, const torch::Tensor& tokens, KvCache& cache,
                          const torch::Tensor& key_mask, int64_t logits_to_keep,
                          const Hidden& hidden, const Logits& logits) {
  TORCH_CHECK_VALUE(tokens.dim() == 2, name, " must have shape (B, T), found ", tokens.sizes());
  check_not_negative("logits_to_keep", logits_to_keep);
  const auto lengths = cache.lengths();
  cache.extend(tokens.size(1), key_mask);
  try {
    const auto x = hidden();  // (B, T, E)
    // If T is less than logits_to_keep, slice keeps all positions.
    return logits(logits_to_keep == 0 ? x : x.slice(1, -logits_to_keep));  // (B, N, V)
  } catch (...) {
    cache.truncate(lengths);
    throw;
  }
}

/// Throws c10::Error if the largest logit is infinite or NaN.
inline void check_highest_logit(double highest) {
  TORCH_CHECK(!std::isnan(highest), "the logits contain NaN; training may have diverged");
  TORCH_CHECK(std::isfinite(highest), "the largest logit must be finite, found ", highest);
}

/// Returns `logits` (V). Throws c10::Error if a logit is NaN or the largest logit is infinite.
inline const torch::Tensor& checked_logits(const torch::Tensor& logits) {
  check_highest_logit(logits.max().item<double>());
  return logits;
}

}  // namespace attend
