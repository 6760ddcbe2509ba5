#pragma once

#include "attend/nn/kv_cache.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// Throws c10::ValueError if an option is missing or out of range.
void check_options(const KvCacheOptions& options);

/// For each layer, appends a tensor of zeros to `keys` and another to `values`. Each tensor has the
/// shape (batch_size, num_kv_heads, max_seq_len + 1, head_dim). The last slot is for padding.
/// Throws c10::OutOfMemoryError if the tensors do not fit into memory.
void allocate(const KvCacheOptions& options, std::vector<torch::Tensor>& keys,
              std::vector<torch::Tensor>& values);

}  // namespace attend
