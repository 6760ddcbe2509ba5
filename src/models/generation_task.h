#pragma once

#include "attend/models/generation.h"

#include <algorithm>
#include <vector>

namespace attend {

/// Arguments of both sampling and beam search.
struct GenerationTask {
  const GenerationOptions& options;
  std::vector<int64_t> eos_tokens;
  std::size_t first_penalized;  ///< the repetition penalty ignores tokens before this index
  int64_t max_new_tokens;

  bool is_eos(int64_t token) const {
    return std::find(eos_tokens.begin(), eos_tokens.end(), token) != eos_tokens.end();
  }
  at::IntArrayRef penalized(const std::vector<int64_t>& tokens) const {
    return at::IntArrayRef(tokens).slice(first_penalized);
  }
};

}  // namespace attend
