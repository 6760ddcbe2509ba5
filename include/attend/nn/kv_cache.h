#pragma once

#include "attend/api.h"

#include <torch/arg.h>
#include <torch/types.h>

#include <optional>
#include <utility>
#include <vector>

namespace attend {

/// Options for `KvCache`. The first five are required.
///
///     KvCacheOptions().num_layers(12).batch_size(1).num_kv_heads(8).head_dim(64).max_seq_len(2048)
struct KvCacheOptions {
  /// Number of attentions L that use the cache.
  TORCH_ARG(std::optional<int64_t>, num_layers);
  /// Number of sequences B.
  TORCH_ARG(std::optional<int64_t>, batch_size);
  /// Number of key-value heads G of each attention.
  TORCH_ARG(std::optional<int64_t>, num_kv_heads);
  /// Width D of each head.
  TORCH_ARG(std::optional<int64_t>, head_dim);
  /// Number of tokens per sequence that memory is allocated for. With a `sliding_window` W, at
  /// least W + T - 1 for calls of up to T tokens.
  TORCH_ARG(std::optional<int64_t>, max_seq_len);
  /// Sliding window of the attentions, or a larger one, in tokens. New tokens then overwrite the
  /// oldest, and sequences may be of any length. 0 = none: tokens beyond `max_seq_len` are refused.
  TORCH_ARG(int64_t, sliding_window) = 0;
  /// dtype of keys and values.
  TORCH_ARG(torch::Dtype, dtype) = torch::kFloat;
  /// Device of keys and values.
  TORCH_ARG(torch::Device, device) = torch::kCPU;
};

/// Key-value cache: the keys and values that the attentions of a model have computed so far, so
/// that a sequence can be processed in several calls, each token once. For causal attention the
/// results equal those of the whole sequence in one call. All memory is allocated by the
/// constructor.
///
/// Before each call of the model, `extend` sets the number of tokens that follow; sequences of a
/// batch may differ in length. The cache then sets the positions and the key mask of each
/// attention, so the `AttentionArgs` of the call may set only `causal`, `sliding_window`,
/// `need_weights`, `average_attn_weights` and, while all sequences have the same length and no
/// token has been overwritten, a `mask` (..., T, S) over all S keys so far.
///
/// For inference only: keys and values that require a gradient are refused.
///
///     KvCache cache(KvCacheOptions().num_layers(1).batch_size(2).num_kv_heads(4).head_dim(16)
///                       .max_seq_len(128));
///     const torch::NoGradGuard no_grad;
///     cache.extend(x.size(1));
///     auto y = attention->forward(x, {.causal = true}, {.cache = &cache, .layer = 0}).output;
class ATTEND_API KvCache {
 public:
  /// Throws c10::ValueError if an option is missing or out of range, or if `sliding_window` exceeds
  /// `max_seq_len`.
  explicit KvCache(const KvCacheOptions& options);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;
  /// Movable; a moved-from cache may only be destroyed or assigned to.
  KvCache(KvCache&&) = default;
  KvCache& operator=(KvCache&&) = default;
  ~KvCache() = default;

  /// Extends every sequence by `tokens` tokens, before the model is called with them. `key_mask`
  /// (B, tokens), bool: true = token, false = padding, on either side; all are tokens if undefined.
  /// The model's output for padding is unspecified.
  ///
  /// Throws c10::ValueError or c10::TypeError, and leaves the cache unchanged, if `key_mask` does
  /// not fit, if `max_seq_len` is exceeded, or if a layer has not appended the tokens of the last
  /// call.
  void extend(int64_t tokens, const torch::Tensor& key_mask = {});

  /// Returns the positions of the tokens of the last `extend` in their sequences: (B, tokens),
  /// int64; 0 for padding in front. For position embeddings.
  torch::Tensor positions() const;

  /// Returns the length of each sequence in tokens, including the last `extend`.
  const std::vector<int64_t>& lengths() const { return lengths_; }

  /// Returns the number of tokens per sequence that memory is allocated for.
  int64_t max_seq_len() const { return max_seq_len_; }

  /// Removes all tokens.
  void clear();

  /// Shortens each sequence b to its first lengths[b] tokens and undoes an `extend` that layers
  /// have not appended yet, e.g. after an exception. Throws c10::ValueError, and leaves the cache
  /// unchanged, if a length exceeds the current one, or if a token of the window has been
  /// overwritten.
  ///
  ///     const auto lengths = cache.lengths();
  ///     cache.extend(3);  // and steps with these tokens
  ///     cache.truncate(lengths);
  void truncate(const std::vector<int64_t>& lengths);

  /// Writes the keys and values (B, G, T, D) of the tokens of the last `extend` to `layer`, once
  /// per layer, and returns all keys and values of the layer (B, G, S, D); without B if the
  /// arguments are. `MultiheadAttention` calls it. Throws c10::ValueError or c10::TypeError if the
  /// arguments do not fit the cache.
  std::pair<torch::Tensor, torch::Tensor> append(int64_t layer, const torch::Tensor& key,
                                                 const torch::Tensor& value);

 private:
  friend class KvCacheHook;

  /// The tokens of the last `extend`. Without a batch dimension if B = 1.
  struct Step {
    int64_t tokens = 0;
    torch::Tensor positions = {};      // (B, T), or (T) if the sequences have equal lengths
    torch::Tensor slots = {};          // as positions: indices along dimension 2 of keys and values
    torch::Tensor key_positions = {};  // (B, S), -1 = empty
    torch::Tensor key_mask = {};       // (B, S), true = not empty
    bool aligned = true;               // equal lengths and nothing overwritten: slot = position
    std::vector<bool> appended = {};   // (L)
  };

  Step empty_step() const;
  Step next_step(int64_t tokens, const torch::Tensor& key_mask, bool padded) const;
  std::vector<int64_t> count_tokens(int64_t tokens, const torch::Tensor& key_mask) const;
  void check_appended() const;
  void check_room(int64_t length, int64_t added) const;
  void check_layer(int64_t layer, int64_t tokens) const;
  void check_fits(const torch::Tensor& added) const;
  torch::Tensor write(torch::Tensor& cached, const torch::Tensor& added) const;
  torch::Tensor without_single_batch(const torch::Tensor& x) const;
  int64_t batch_size() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t used_slots() const;

  int64_t max_seq_len_;
  int64_t sliding_window_;
  std::vector<torch::Tensor> keys_;    // per layer: (B, G, max_seq_len + 1, D); the last slot takes
  std::vector<torch::Tensor> values_;  // the padding and is never read
  torch::Tensor key_positions_;        // (B, max_seq_len + 1), -1 = empty
  std::vector<int64_t> lengths_;       // (B)
  std::vector<int64_t> overwritten_;   // (B): number of first tokens that have been overwritten
  Step step_;
};

}  // namespace attend
