#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"

#include <torch/arg.h>
#include <torch/types.h>

#include <vector>

namespace attend {

/// Options for `KvCache`.
///
///     KvCacheOptions(12, 1, 8, 64, 2048).dtype(torch::kBFloat16)   // the last 2048 tokens at most
///     KvCacheOptions(12, 1, 8, 64, 1024 + 255).sliding_window(1024)        // no end, in chunks up
///     to 256
struct KvCacheOptions {
  KvCacheOptions(int64_t num_layers, int64_t batch_size, int64_t num_kv_heads, int64_t head_dim,
                 int64_t max_seq_len)
      : num_layers_(num_layers),
        batch_size_(batch_size),
        num_kv_heads_(num_kv_heads),
        head_dim_(head_dim),
        max_seq_len_(max_seq_len) {}

  /// Number of attentions L that share the cache.
  TORCH_ARG(int64_t, num_layers);
  /// Number of sequences B.
  TORCH_ARG(int64_t, batch_size);
  /// Number of key-value heads G of each attention.
  TORCH_ARG(int64_t, num_kv_heads);
  /// Width D of each head.
  TORCH_ARG(int64_t, head_dim);
  /// How many tokens of a sequence are kept.
  TORCH_ARG(int64_t, max_seq_len);
  /// How many tokens a query sees at most, itself included: the attentions' own window, or more.
  /// New tokens then take the place of the oldest, and a sequence may be of any length. 0 = tokens
  /// beyond the max_seq_len are refused.
  TORCH_ARG(int64_t, sliding_window) = 0;
  TORCH_ARG(torch::Dtype, dtype) = torch::kFloat;
  TORCH_ARG(torch::Device, device) = torch::kCPU;
};

/// The keys and values that the attentions of a model have computed so far, so that a sequence can
/// be fed in pieces, each token once: the results are those of the whole sequence at once, if the
/// attentions are causal. Memory for `max_seq_len` tokens is taken at the start, and no more later.
///
/// The sequences of a batch may have different lengths. `extend` announces what the next call of
/// the model brings, and each attention of the model then gets the cache in its `ForwardState`. Of
/// `AttentionArgs` it supplies positions, and which keys are valid: those of a call may have a
/// `causal`, a `window`, what is returned and, while all sequences are equally long and nothing has
/// been dropped, a `mask` over all keys so far.
///
/// It serves inference only. Keys that need a gradient are refused rather than detached, since a
/// detached key would silently make the gradient of its projection wrong.
///
///     KvCache cache(KvCacheOptions(1, 2, 4, 16, 128));
///     const torch::NoGradGuard no_grad;
///     cache.extend(x.size(1));
///     auto y = attention->forward(x, {.causal = true}, {.cache = &cache, .layer = 0}).output;
class ATTEND_API KvCache : public AttentionHook {
 public:
  /// Throws c10::ValueError for an option out of range, or a window greater than the max_seq_len.
  explicit KvCache(const KvCacheOptions& options);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  /// Announces the next `tokens` of every sequence, before the model runs on them. `valid`
  /// (B, tokens), bool: true = a token of the sequence, false = padding, on whichever side; all are
  /// tokens if it is not given. What the model gives for padding means nothing.
  ///
  /// Throws c10::ValueError or c10::TypeError, and leaves the cache as it was, if `valid` does not
  /// fit, if there is no room for the tokens, or if not every layer has stored those announced
  /// before.
  void extend(int64_t tokens, const torch::Tensor& key_mask = {});

  /// Where the announced tokens stand in their sequences, in steps: (B, T), int64; 0 for padding
  /// in front. For embeddings of positions.
  torch::Tensor positions() const;

  /// The length of each sequence so far, what is announced included.
  const std::vector<int64_t>& lengths() const { return lengths_; }

  /// How many tokens of a sequence are kept.
  int64_t max_seq_len() const { return options_.max_seq_len(); }

  /// Forgets everything, for other sequences.
  void clear();

  /// Forgets what comes after the first lengths[b] tokens of each sequence b, and what is
  /// announced: to take tokens back, or a call of the model that failed. Throws c10::ValueError,
  /// and leaves the cache as it was, for lengths that it does not have, or if a token that would
  /// come back into the window has been dropped.
  ///
  ///     const auto before = cache.lengths();
  ///     ...
  ///     cache.truncate(before);
  void truncate(const std::vector<int64_t>& lengths);

  void after_projection(AttentionContext& context) override;
  void before_attention(AttentionContext& context) override;
  torch::Tensor after_attention(const AttentionContext& context,
                                const torch::Tensor& output) override;

 private:
  /// What the last `extend` announced.
  struct Announcement {
    int64_t tokens = 0;
    torch::Tensor positions;   // (B, T), or (T) if the sequences are equally long
    torch::Tensor slots;       // the same: where their keys and values go
    bool in_order = true;      // the sequences fill the slots from the first on, equally far
    std::vector<bool> stored;  // (L): the layers that have stored theirs
  };

  Announcement nothing() const;
  Announcement announce(int64_t tokens, const torch::Tensor& key_mask, bool padded) const;
  std::vector<int64_t> count(int64_t tokens, const torch::Tensor& key_mask) const;
  void check_stored() const;
  void check_room(int64_t length, int64_t added) const;
  void check_call(const AttentionContext& context) const;
  void check_fits(const torch::Tensor& fresh) const;
  torch::Tensor store(torch::Tensor& kept, const torch::Tensor& fresh) const;
  int64_t used_slots() const;

  KvCacheOptions options_;
  std::vector<torch::Tensor> keys_;    // of each layer: (B, G, max_seq_len + 1, D)
  std::vector<torch::Tensor> values_;  // the same; the last slot is for padding, and never read
  torch::Tensor key_positions_;        // (B, max_seq_len + 1), -1 = empty
  std::vector<int64_t> lengths_;       // (B)
  std::vector<int64_t> dropped_;       // (B): how many of the first tokens have been overwritten
  Announcement announced_;
};

}  // namespace attend
