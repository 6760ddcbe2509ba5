#pragma once

#include "attend/ops/attention.h"

#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <vector>

namespace attend {

/// Options for `MultiheadAttention`.
///
///     MultiheadAttentionOptions(512, 8)                 // narrow heads: 8 of width 64
///     MultiheadAttentionOptions(512, 8).head_dim(512)   // wide heads: 8 of width 512
struct MultiheadAttentionOptions {
  MultiheadAttentionOptions(int64_t embed_dim, int64_t num_heads)
      : embed_dim_(embed_dim), num_heads_(num_heads) {}

  /// Width E of the input and of the output.
  TORCH_ARG(int64_t, embed_dim);
  /// Number of heads H.
  TORCH_ARG(int64_t, num_heads);
  /// Width D of each head. If not set, E/H (narrow heads), and H must divide E.
  TORCH_ARG(std::optional<int64_t>, head_dim);
  /// Whether the projections add a bias.
  TORCH_ARG(bool, bias) = true;
  /// Probability that an attention weight is dropped while training.
  TORCH_ARG(double, dropout) = 0.0;
};

/// Multi-head attention (Vaswani et al. 2017, section 3.2.2), with narrow or wide heads, over
/// itself or over another sequence.
///
/// State dict: `qkv` (3*H*D, E), the queries' rows first, then the keys', then the values';
/// `out` (E, H*D); each a Linear.
///
///     MultiheadAttention attention(MultiheadAttentionOptions(64, 4));
///     auto y = attention->forward(x, {.causal = true}).output;  // (B, T, 64)
///     auto z = attention->cross(x, memory, memory).output;      // x looks at memory
class MultiheadAttentionImpl : public torch::nn::Cloneable<MultiheadAttentionImpl> {
 public:
  explicit MultiheadAttentionImpl(const MultiheadAttentionOptions& options);
  MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads)
      : MultiheadAttentionImpl(MultiheadAttentionOptions(embed_dim, num_heads)) {}

  /// Self-attention. `x` (B, T, E) or (T, E); the mask in `args` broadcasts to (B, H, T, T), bool
  /// with true = may attend, or float. Returns output (..., T, E) and, when asked, weights
  /// (..., H, T, T). Throws c10::ValueError if the width of `x` is not E.
  AttentionOutput forward(const torch::Tensor& x, const AttentionArgs& args = {});

  /// Cross-attention. `query` (B, T, E), `key` and `value` (B, S, E), or all without B; the mask
  /// broadcasts to (B, H, T, S). Not a second `forward`: LibTorch's holders and `AnyModule` cannot
  /// call an overloaded one.
  AttentionOutput cross(const torch::Tensor& query, const torch::Tensor& key,
                        const torch::Tensor& value, const AttentionArgs& args = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  MultiheadAttentionOptions options;
  torch::nn::Linear qkv{nullptr};
  torch::nn::Linear out{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(AttentionArgs())})

 private:
  /// Projects `x` (..., T, E) by the rows of `qkv` that belong to the parts first .. first+count-1
  /// of (query, key, value), and splits the heads.
  std::vector<torch::Tensor> project(const torch::Tensor& x, int64_t first, int64_t count) const;
  AttentionOutput attend_heads(const torch::Tensor& query, const torch::Tensor& key,
                               const torch::Tensor& value, const AttentionArgs& args);

  int64_t head_dim_ = 0;
};
TORCH_MODULE(MultiheadAttention);

}  // namespace attend
