#pragma once

#include "attend/nn/kv_cache.h"

#include <torch/types.h>

#include <string_view>
#include <utility>
#include <vector>

namespace attend {

using Tokens = std::vector<int64_t>;

/// Returns two tensors (B, T): the tokens of `rows`, padded on `side` ("left" or "right"), and the
/// key mask. The key mask is undefined if there is no padding.
std::pair<torch::Tensor, torch::Tensor> padded(const std::vector<at::IntArrayRef>& rows,
                                               std::string_view side, const torch::Device& device);

/// A model that decodes the next token of each row of a batch.
class NextTokenModel {
 public:
  virtual ~NextTokenModel() = default;
  /// Extends `cache` by `tokens` (B, T) and returns the logits (B, 1, V) of the last position.
  /// `key_mask` (B, T) is undefined if there is no padding.
  virtual torch::Tensor step(const torch::Tensor& tokens, KvCache& cache,
                             const torch::Tensor& key_mask) = 0;
  /// Replaces the rows of tensors that the model stores for the batch, such as the encoder output.
  /// The new row n is a copy of the old row rows[n]. The caller replaces the rows of the cache.
  virtual void select_rows(const std::vector<int64_t>& rows) = 0;
};

/// The rows of a batch during generation: all tokens of each row, and a KV cache of each row's
/// context. The context is the part of the row that the model sees: the last tokens of the row.
class DecodingBatch {
 public:
  /// `max_seq_len`: maximum number of tokens per call of `NextTokenModel::step`. `rolls`: true if a
  /// context may exceed `max_seq_len` tokens, because the cache overwrites tokens outside of the
  /// sliding window. If false, the oldest tokens of a longer context are dropped.
  DecodingBatch(NextTokenModel& model, KvCache cache, std::vector<Tokens> tokens,
                int64_t max_seq_len, bool rolls, torch::Device device);

  std::size_t size() const { return tokens_.size(); }
  const Tokens& tokens(std::size_t row) const { return tokens_[row]; }
  void append(std::size_t row, int64_t token) { tokens_[row].push_back(token); }
  /// Returns the logits (B, V) of the next token of each row, float64 on the CPU.
  torch::Tensor next_logits();
  /// Replaces the rows: the new row n is a copy of the old row rows[n].
  void select(const std::vector<int64_t>& rows);

 private:
  std::size_t cached(std::size_t row) const;
  std::size_t pending(std::size_t row) const;
  std::pair<std::size_t, std::size_t> pending_range() const;
  void shorten_contexts();
  template <typename Count>
  torch::Tensor feed(const Count& count);

  NextTokenModel& model_;
  KvCache cache_;
  std::vector<Tokens> tokens_;
  std::vector<std::size_t> begins_;  // index of the first token of each row's context
  std::size_t max_seq_len_;
  std::size_t kept_;  // number of tokens that remain when a context with cached tokens is shortened
  bool rolls_;
  torch::Device device_;
};

}  // namespace attend
