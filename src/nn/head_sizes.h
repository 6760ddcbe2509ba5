#pragma once

#include "attend/nn/multihead_attention.h"

namespace attend {

/// Returns the number G of key-value heads of attention with these options.
inline int64_t num_kv_heads_of(const MultiheadAttentionOptions& options) {
  return options.num_kv_heads().value_or(options.num_heads());
}

/// Returns the head width D of attention with these options. The number of heads must not be 0.
inline int64_t head_dim_of(const MultiheadAttentionOptions& options) {
  return options.head_dim().value_or(options.embed_dim() / options.num_heads());
}

}  // namespace attend
