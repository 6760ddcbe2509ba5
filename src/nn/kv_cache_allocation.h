#pragma once

#include "attend/nn/kv_cache.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// Throws c10::ValueError if an option is missing or out of range.
void check_options(const KvCacheOptions& options);

/// Appends a tensor (batch_size, num_kv_heads, max_seq_len + 1, head_dim) of zeros per layer to
/// `keys` and to `values`. Throws c10::OutOfMemoryError if they do not fit into memory.
void allocate(const KvCacheOptions& options, std::vector<torch::Tensor>& keys,
              std::vector<torch::Tensor>& values);

}  // namespace attend
