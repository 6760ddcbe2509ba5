#pragma once

#include <cstdint>
#include <string>

namespace attend {

/// Numbers of a model that its methods make an empty cache with.
struct CacheSizes {
  int64_t num_layers = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_seq_len = 0;  ///< tokens at most
};

// Methods that no trace can hold, with loops and conditions, in TorchScript's own language. They
// call the traced ones.

/// `generate`, which calls `step`.
std::string language_model_source(const CacheSizes& sizes);
/// `generate`, which calls `encode` and `step`.
std::string seq2seq_source(const CacheSizes& sizes);
/// `predict`, which calls `forward_padded`.
std::string classifier_source();

}  // namespace attend
