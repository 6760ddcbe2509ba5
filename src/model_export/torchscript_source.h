#pragma once

#include <cstdint>
#include <string>

namespace attend {

/// Values that are inserted into the source of `generate`: sizes of the past_key_values cache and
/// limits of the context.
struct CacheSizes {
  int64_t num_layers = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_seq_len = 0;
  int64_t kept_context = 0;  ///< number of tokens that remain when a full context is truncated
  bool unlimited = false;    ///< the context may exceed max_seq_len
};

// TorchScript source of methods with control flow, which cannot be traced. These methods call
// traced methods.

/// Returns the source of `generate`, which calls `step`, and of the helper methods for sampling.
std::string language_model_source(const CacheSizes& sizes);
/// Returns the source of `generate`, which calls `encode` and `step`, and of the helper methods for
/// sampling.
std::string seq2seq_source(const CacheSizes& sizes);
/// Returns the source of `predict`, which calls `forward_padded`.
std::string classifier_source();

}  // namespace attend
