#pragma once

#include "attend/models/generation.h"

#include <algorithm>
#include <vector>

namespace attend {

/// Arguments of both sampling and beam search.
struct GenerationTask {
  const GenerationOptions& options;
  std::vector<int64_t> eos_tokens;
  /// The repetition penalty and the n-grams that must not repeat ignore tokens before this index.
  std::size_t first_previous;
  int64_t max_new_tokens;

  bool is_eos(int64_t token) const {
    return std::find(eos_tokens.begin(), eos_tokens.end(), token) != eos_tokens.end();
  }
  at::IntArrayRef previous(const std::vector<int64_t>& tokens) const {
    return at::IntArrayRef(tokens).slice(first_previous);
  }
  /// Returns the logits (V) of the token after `num_new_tokens` generated ones, with -inf for the
  /// stop tokens if there are fewer than `min_new_tokens`.
  torch::Tensor without_early_eos(const torch::Tensor& logits, int64_t num_new_tokens) const {
    if (num_new_tokens >= options.min_new_tokens) return logits;
    auto tokens = eos_tokens;
    std::erase_if(tokens, [&](int64_t token) { return token < 0 || token >= logits.size(0); });
    return suppress_tokens(logits, tokens);
  }
};

}  // namespace attend
