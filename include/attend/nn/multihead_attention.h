#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/ops/attention.h"

#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace attend {

/// Options for `MultiheadAttention`.
///
///     MultiheadAttentionOptions(512, 8)                             // narrow heads: 8 of width 64
///     MultiheadAttentionOptions(512, 8).head_dim(512)               // wide heads: 8 of width 512
///     MultiheadAttentionOptions(512, 8).num_kv_heads(2).add(rotary())  // as in Llama 3
struct MultiheadAttentionOptions {
  MultiheadAttentionOptions(int64_t embed_dim, int64_t num_heads)
      : embed_dim_(embed_dim), num_heads_(num_heads) {}

  /// Adds a feature; features act in the order in which they are added.
  MultiheadAttentionOptions& add(AttentionHookFactory hook) {
    hooks_.push_back(std::move(hook));
    return *this;
  }

  /// Width E of the input and of the output.
  TORCH_ARG(int64_t, embed_dim);
  /// Number of heads H.
  TORCH_ARG(int64_t, num_heads);
  /// Number of key-value heads G, a divisor of H: each serves H/G queries' heads in a row. H if not
  /// set; 1 is multi-query attention (Shazeer 2019), a number between grouped-query attention
  /// (Ainslie et al. 2023).
  TORCH_ARG(std::optional<int64_t>, num_kv_heads);
  /// Width D of each head. If not set, E/H (narrow heads), and H must divide E.
  TORCH_ARG(std::optional<int64_t>, head_dim);
  /// Width of the keys' input in `cross`; E if not set.
  TORCH_ARG(std::optional<int64_t>, kdim);
  /// Width of the values' input in `cross`; E if not set.
  TORCH_ARG(std::optional<int64_t>, vdim);
  /// Whether the projections add a bias.
  TORCH_ARG(bool, bias) = true;
  /// Probability that an attention weight is dropped while training.
  TORCH_ARG(double, dropout) = 0.0;
  /// What the scores are multiplied by; 1/sqrt(D) if not set.
  TORCH_ARG(std::optional<double>, scale);
  /// Features beyond the textbook's attention, in the order in which they act.
  TORCH_ARG(std::vector<AttentionHookFactory>, hooks);
};

/// Multi-head attention (Vaswani et al. 2017, section 3.2.2), with narrow or wide heads, over
/// itself or over another sequence.
///
/// State dict: `qkv` ((H+2G)*D, E), the queries' rows first, then the keys', then the values', or,
/// if the keys' or values' input has a width of its own, `query` (H*D, E), `key` (G*D, kdim) and
/// `value` (G*D, vdim); `out` (E, H*D); each a Linear. Each part under its own name.
///
///     MultiheadAttention attention(MultiheadAttentionOptions(64, 4));
///     auto y = attention->forward(x, {.causal = true}).output;  // (B, T, 64)
///     auto z = attention->cross(x, memory, memory).output;      // x looks at memory
class ATTEND_API MultiheadAttentionImpl : public torch::nn::Cloneable<MultiheadAttentionImpl> {
 public:
  explicit MultiheadAttentionImpl(const MultiheadAttentionOptions& options);
  MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads)
      : MultiheadAttentionImpl(MultiheadAttentionOptions(embed_dim, num_heads)) {}

  /// Self-attention. `x` (B, T, E) or (T, E); the mask in `args` broadcasts to (B, H, T, S), bool
  /// with true = may attend, or float; S = T, or longer by the keys that `state` has from earlier
  /// calls. Returns output (..., T, E) and, when asked, weights (..., H, T, S). Throws
  /// c10::ValueError if the width of `x` is not E.
  AttentionOutput forward(const torch::Tensor& x, const AttentionArgs& args = {},
                          const ForwardState& state = {});

  /// Cross-attention. `query` (B, T, E), `key` (B, S, kdim), `value` (B, S, vdim), or all
  /// without B; the mask broadcasts to (B, H, T, S). Not a second `forward`: LibTorch's holders and
  /// `AnyModule` cannot call an overloaded one.
  AttentionOutput cross(const torch::Tensor& query, const torch::Tensor& key,
                        const torch::Tensor& value, const AttentionArgs& args = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  MultiheadAttentionOptions options;
  torch::nn::Linear qkv{nullptr};    ///< empty if keys or values have a width of their own
  torch::nn::Linear query{nullptr};  ///< this and the next two: empty otherwise
  torch::nn::Linear key{nullptr};
  torch::nn::Linear value{nullptr};
  torch::nn::Linear out{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(AttentionArgs())},
                           {2, torch::nn::AnyValue(ForwardState())})

 private:
  /// Projects `x` (..., T, E) to the parts first .. first+count-1 of (query, key, value), each
  /// (..., heads, T, D).
  std::vector<torch::Tensor> project(const torch::Tensor& x, std::size_t first, std::size_t count);
  AttentionOutput attend_heads(AttentionContext context);

  AttentionDims shape_{};
  std::vector<std::shared_ptr<AttentionHook>> hooks_;
};
TORCH_MODULE(MultiheadAttention);

}  // namespace attend
