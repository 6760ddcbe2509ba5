#pragma once

#include "attend/api.h"
#include "attend/arg.h"

#include <c10/util/FunctionRef.h>
#include <torch/types.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace attend {

/// Options for `KvCache`. The first five options are required; -1 = not set.
///
///     KvCacheOptions().num_layers(12).batch_size(1).num_kv_heads(8).head_dim(64).max_seq_len(2048)
struct KvCacheOptions {
  /// Number of attention layers L that use the cache.
  ATTEND_ARG(int64_t, num_layers) = -1;
  /// Number of sequences B.
  ATTEND_ARG(int64_t, batch_size) = -1;
  /// Number of key-value heads G of each attention.
  ATTEND_ARG(int64_t, num_kv_heads) = -1;
  /// Width D of each head.
  ATTEND_ARG(int64_t, head_dim) = -1;
  /// Number of tokens per sequence that memory is allocated for. With a `sliding_window` W, a
  /// sequence may become longer than `max_seq_len`. If an `extend` by T tokens makes a sequence
  /// longer than `max_seq_len`, then `max_seq_len` must be at least W + T - 1.
  ATTEND_ARG(int64_t, max_seq_len) = -1;
  /// Sliding window in tokens. 0 = none: a sequence cannot exceed `max_seq_len`. If the window is
  /// positive, each attention layer must have a sliding window that is not larger. New tokens then
  /// overwrite the oldest tokens when `max_seq_len` is reached, so sequences may have any length.
  ATTEND_ARG(int64_t, sliding_window) = 0;
  /// dtype of keys and values.
  ATTEND_ARG(torch::Dtype, dtype) = torch::kFloat;
  /// Device of keys and values.
  ATTEND_ARG(torch::Device, device) = torch::kCPU;
};

/// Key-value cache: stores the keys and values of all attention layers, so that a sequence can be
/// processed in several calls without recomputing earlier tokens. For causal attention, the results
/// equal the results of one call with the whole sequence. The constructor allocates memory for
/// `max_seq_len` tokens per sequence; `select_rows` allocates new memory if it increases the batch
/// size.
///
/// Before each call of the model, call `extend` with the number of new tokens, and with a
/// `key_mask` if some sequences get fewer new tokens than others. The cache then sets the positions
/// and the key mask of each attention layer. The `AttentionArgs` of the call may therefore set only
/// `causal`, `sliding_window`, `need_weights`, `average_attn_weights` and, while `is_aligned()` is
/// true, a `mask` (..., T, S) over all S keys so far. If there is no `mask`, `causal` must be set,
/// because queries can never attend to the keys of later calls.
///
/// For inference only: throws if keys or values require a gradient. Under autocast, the keys and
/// values are stored in the dtype in which the attention computes them. Not thread-safe: each
/// thread needs its own cache.
///
///     KvCache cache(KvCacheOptions().num_layers(1).batch_size(2).num_kv_heads(4).head_dim(16)
///                       .max_seq_len(128));
///     const torch::NoGradGuard no_grad;
///     cache.extend(x.size(1));
///     auto y = attention->forward(x, {.causal = true}, {.cache = &cache, .layer = 0}).output;
class ATTEND_API KvCache {
 public:
  /// Throws c10::ValueError if an option is missing or out of range, or if `sliding_window` exceeds
  /// `max_seq_len`, and c10::OutOfMemoryError if the keys and values are larger than the memory of
  /// the machine or of the GPU. A lower limit, such as that of a container, is not read.
  explicit KvCache(const KvCacheOptions& options);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;
  /// Movable; a moved-from cache may only be destroyed or assigned to.
  KvCache(KvCache&&) = default;
  KvCache& operator=(KvCache&&) = default;
  ~KvCache() = default;

  /// Extends every sequence by `tokens` tokens, except for tokens that are padding. Call `extend`
  /// before the model is called with these tokens. `key_mask` (B, tokens), bool: true = token,
  /// false = padding; undefined = no padding. Padding may be on the left or on the right of the
  /// tokens. The model's output for padding is unspecified.
  ///
  /// Throws c10::ValueError or c10::TypeError if `key_mask` is not bool (B, tokens), if
  /// `max_seq_len` is too small, or if a layer has not appended the tokens of the previous
  /// `extend`. If it throws, the cache is unchanged, also if memory ends.
  void extend(int64_t tokens, const torch::Tensor& key_mask = {});

  /// Returns the positions of the tokens of the last `extend`, counted from the start of each
  /// sequence: (B, tokens), int64, for position embeddings. The positions of padding have no
  /// meaning, but are at least 0.
  torch::Tensor positions() const;

  /// Returns the same positions as `positions()`, in a shape for the `AttentionArgs::positions` of
  /// `dot_product_attention`: (tokens) if B = 1, or if all sequences have the same length and the
  /// last `extend` had no padding; otherwise (B, tokens). `MultiheadAttention` sets the argument
  /// itself if a call has a cache, and refuses it from the caller; so it does with `key_positions`
  /// and `key_mask`.
  const torch::Tensor& query_positions() const { return step_.positions; }

  /// Returns true if the last `extend` had no padding and, after it, all sequences have the same
  /// length and no token has been overwritten. Key s then has position s. After `clear`, `truncate`
  /// and `select_rows`, returns true until the next `extend`.
  bool is_aligned() const { return step_.aligned; }

  /// Returns the positions of all keys of a layer, as `AttentionArgs::key_positions`: (B, S), or
  /// (S) if B = 1; int64; -1 = no token. An undefined tensor if `is_aligned()` is true.
  const torch::Tensor& key_positions() const { return step_.key_positions; }

  /// Returns the mask of all keys of a layer, as `AttentionArgs::key_mask`: bool, in the shape of
  /// `key_positions`; true = may be attended to. An undefined tensor if `is_aligned()` is true.
  const torch::Tensor& key_mask() const { return step_.key_mask; }

  /// Returns the length of each sequence in tokens, including the last `extend`.
  const std::vector<int64_t>& lengths() const { return sequences_.lengths; }

  /// Returns the number of sequences B.
  int64_t batch_size() const { return static_cast<int64_t>(lengths().size()); }

  /// Returns the number of tokens per sequence that memory is allocated for.
  int64_t max_seq_len() const { return options_.max_seq_len(); }

  /// Returns the sliding window in tokens; 0 = none.
  int64_t sliding_window() const { return options_.sliding_window(); }

  /// Removes all tokens.
  void clear();

  /// Shortens each sequence b to its first lengths[b] tokens. To undo an `extend`, pass the lengths
  /// from before the `extend`. This also works if some layers have not appended the tokens of the
  /// `extend`, e.g. because the model threw an exception. Throws c10::ValueError, and leaves the
  /// cache unchanged, if a length is negative or exceeds the current length of the sequence, or if
  /// the next token of a shortened sequence could attend to a token that has been overwritten.
  ///
  ///     const auto lengths = cache.lengths();
  ///     cache.extend(3);  // then the model is called with 3 tokens
  ///     cache.truncate(lengths);
  void truncate(const std::vector<int64_t>& lengths);

  /// Replaces the sequences: the new sequence n is a copy of the old sequence rows[n]. Changes the
  /// batch size to the number of rows. Use `select_rows` for beam search, or to remove sequences
  /// that have ended. With cross-attention, also select these rows of the memory and its mask
  /// before the next call of the model. Throws c10::ValueError if a row does not exist or if a
  /// layer has not appended the tokens of the last `extend`, and c10::OutOfMemoryError if the batch
  /// size increases and the device has too little memory. If it throws, the cache is unchanged.
  ///
  ///     cache.select_rows({0, 0, 2});
  void select_rows(const std::vector<int64_t>& rows);

  /// Throws c10::ValueError if `layer` cannot append `tokens` tokens now: if the layer does not
  /// exist, if it has already appended the tokens of the last `extend`, or if the last `extend` had
  /// another number of tokens.
  void check_append(int64_t layer, int64_t tokens) const;

  /// Stores in `layer` the keys and values (B, G, T, D) of the tokens of the last `extend`. Returns
  /// all keys and values of the layer (B, G, S, D). If the arguments have no batch dimension, the
  /// results have none either. `MultiheadAttention` calls `append` once per layer. Throws
  /// c10::ValueError or c10::TypeError if `check_append` throws, if shape or device do not match
  /// those of the cache, if the dtype does not match and autocast is off, or if keys or values
  /// require a gradient.
  std::pair<torch::Tensor, torch::Tensor> append(int64_t layer, const torch::Tensor& key,
                                                 const torch::Tensor& value);

  /// The memory of a layer.
  struct Slots {
    const torch::Tensor& keys;    ///< (B, G, slots, D)
    const torch::Tensor& values;  ///< (B, G, slots, D)
    const std::vector<int64_t>&
        lengths;  ///< (B): the new token of sequence b is in the slot before
  };

  /// Returns true if `append_token(layer)` accepts keys and values (B, G, 1, D) in float32 on the
  /// CPU: if `append` would accept them, the last `extend` had no padding, and no tokens have been
  /// overwritten.
  bool can_append_token(int64_t layer, int64_t batch_size, int64_t num_kv_heads,
                        int64_t head_dim) const;

  /// As `append` for one token per sequence, but the caller writes its keys and values. Requires
  /// `can_append_token`.
  Slots append_token(int64_t layer);

  /// Returns the keys and values of a memory, such as an encoder's output, for the cross-attention
  /// of `layer`. `project` computes them; the result is cached. `project` is called again if
  /// `memory` is a different tensor than in the last call for `layer`, if `memory` was changed in
  /// place since then, or if the cached keys do not have `dtype`. In-place changes of a `memory`
  /// created in inference mode are not detected. Called by `MultiheadAttention`.
  std::pair<torch::Tensor, torch::Tensor> memory_keys(
      int64_t layer, const torch::Tensor& memory, torch::Dtype dtype,
      c10::function_ref<std::pair<torch::Tensor, torch::Tensor>()> project);

 private:
  /// The sequences, without their keys and values. The slot of each token follows from these
  /// numbers: the token at position p is in slot p % max_seq_len, until a later token overwrites
  /// it.
  struct Sequences {
    std::vector<int64_t> lengths = {};      // (B)
    std::vector<int64_t> overwritten = {};  // (B): number of tokens that have been overwritten
    int64_t max_seq_len = 0;
    int64_t sliding_window = 0;

    bool have_equal_lengths() const;
    bool any_overwritten() const;
    int64_t used_slots() const;
    /// Returns the position of the token in each of the S used slots: (B, S), -1 = no token.
    std::vector<int64_t> positions_in_slots() const;
    /// Throws c10::ValueError if a sequence has no room for `added` more tokens.
    void check_room(const std::vector<int64_t>& added) const;
    void extend(const std::vector<int64_t>& added);
    /// Throws c10::ValueError if the sequences cannot be shortened to `shorter`.
    void check_truncate(const std::vector<int64_t>& shorter) const;
    /// Throws c10::ValueError if a row does not exist.
    Sequences select(const std::vector<int64_t>& rows) const;
  };

  /// The tokens of the last `extend`. The tensors have no batch dimension if B = 1.
  struct Step {
    int64_t tokens = 0;
    torch::Tensor positions = {};  // (B, T) or (T); see query_positions()
    torch::Tensor slots = {};  // shape of positions; indices into dimension 2 of keys_; see aligned
    torch::Tensor key_positions = {};  // (B, S), -1 = empty
    torch::Tensor key_mask = {};       // (B, S), true = not empty
    bool padded = false;
    bool aligned = true;  // see is_aligned(); if true, slots is undefined: the last slots in use
    std::vector<bool> appended = {};  // (L)
  };

  /// Keys and values of a memory in one layer.
  struct MemoryKeys {
    torch::Tensor memory = {};  // kept alive, so that no new tensor gets its address
    int64_t version = 0;
    torch::Tensor key = {};    // (B, G, S, D)
    torch::Tensor value = {};  // (B, G, S, D)
  };

  Step empty_step() const;
  torch::TensorOptions integers() const;
  torch::Tensor matrix(const std::vector<int64_t>& numbers, std::size_t num_rows) const;
  Step make_step(int64_t tokens, const torch::Tensor& key_mask, const std::vector<int64_t>& counts,
                 const Sequences& extended) const;
  void check_key_mask(int64_t tokens, const torch::Tensor& key_mask) const;
  std::vector<int64_t> count_tokens(int64_t tokens, const torch::Tensor& key_mask) const;
  void check_appended() const;
  void check_layer(int64_t layer) const;
  void check_match(const torch::Tensor& cached, const torch::Tensor& added) const;
  torch::Tensor write(torch::Tensor& cached, const torch::Tensor& added) const;

  KvCacheOptions options_;  // passed to the constructor
  // Per layer: (B, G, max_seq_len + 1, D). Padding is written to the last slot, which is never
  // read.
  std::vector<torch::Tensor> keys_;
  std::vector<torch::Tensor> values_;
  Sequences sequences_;
  std::vector<MemoryKeys> memory_;  // per layer
  Step step_;
};

}  // namespace attend
