#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/module_holder.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/cloneable.h"
#include "attend/ops/attention.h"

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
///     MultiheadAttentionOptions(512, 8);                                // head_dim 64
///     MultiheadAttentionOptions(512, 8).head_dim(512);                  // wide heads
///     MultiheadAttentionOptions(512, 8).num_kv_heads(2).add(rotary());  // as in Llama 3
struct MultiheadAttentionOptions {
  /// Options for width E and H heads.
  MultiheadAttentionOptions(int64_t embed_dim, int64_t num_heads)
      : embed_dim_(embed_dim), num_heads_(num_heads) {}

  /// Adds a hook. Hooks are called in the order in which they are added.
  MultiheadAttentionOptions& add(AttentionHookFactory hook) & {
    hooks_.push_back(std::move(hook));
    return *this;
  }
  /// Adds a hook.
  MultiheadAttentionOptions add(AttentionHookFactory hook) && {
    hooks_.push_back(std::move(hook));
    return std::move(*this);
  }

  /// Width E of input and output.
  ATTEND_ARG(int64_t, embed_dim);
  /// Number of heads H.
  ATTEND_ARG(int64_t, num_heads);
  /// Number of key-value heads G, a divisor of H; H if not set. H/G consecutive query heads share a
  /// key-value head: multi-query attention if G = 1 (Shazeer 2019), grouped-query attention if
  /// `1 < G < H` (Ainslie et al. 2023).
  ATTEND_ARG(std::optional<int64_t>, num_kv_heads);
  /// Width D of each head; E/H if not set, and H must then divide E.
  ATTEND_ARG(std::optional<int64_t>, head_dim);
  /// Width of the key input of `cross`; E if not set.
  ATTEND_ARG(std::optional<int64_t>, kdim);
  /// Width of the value input of `cross`; E if not set.
  ATTEND_ARG(std::optional<int64_t>, vdim);
  /// If true, the projections have a bias.
  ATTEND_ARG(bool, bias) = true;
  /// If true, the query, key and value projections have a bias even if `bias` is false (Qwen2).
  ATTEND_ARG(bool, qkv_bias) = false;
  /// Dropout probability of the attention weights.
  ATTEND_ARG(double, dropout) = 0.0;
  /// Factor by which the scores are multiplied; 1/sqrt(D) if not set.
  ATTEND_ARG(std::optional<double>, scale);
  /// Hooks, in the order in which they are called.
  ATTEND_ARG(std::vector<AttentionHookFactory>, hooks);
};

/// Multi-head attention (Vaswani et al. 2017, section 3.2.2): self-attention with `forward`,
/// cross-attention with `cross`.
///
/// State dict: the Linears `qkv` ((H+2G)*D, E) and `out` (E, H*D). The rows of `qkv` are the rows
/// of the query, key and value projections, in this order. If kdim or vdim differ from E, there are
/// `query` (H*D, E), `key` (G*D, kdim) and `value` (G*D, vdim) instead of `qkv`. Each hook is a
/// submodule with the name of its factory, e.g. `rotary`.
///
///     MultiheadAttention attention(MultiheadAttentionOptions(64, 4));
///     auto y = attention(x, {.causal = true}).output;  // (B, T, 64)
///     auto z = attention->cross(x, memory, memory).output;      // (B, T, 64)
class ATTEND_API MultiheadAttentionImpl : public Cloneable<MultiheadAttentionImpl> {
 public:
  /// Throws c10::ValueError if an option is out of range or contradicts another, c10::TypeError if
  /// a hook is not an `AttentionHook`.
  explicit MultiheadAttentionImpl(const MultiheadAttentionOptions& options);
  /// An attention module with default options.
  MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads)
      : MultiheadAttentionImpl(MultiheadAttentionOptions(embed_dim, num_heads)) {}

  /// Self-attention. `x` (B, T, E) or (T, E). The mask in `args` broadcasts to (B, H, T, S): bool
  /// (true = may attend) or float (added to the scores); S is T plus the number of cached keys.
  /// Returns the output (..., T, E) and, if `args.need_weights`, the weights: (..., H, T, S), or
  /// (..., T, S) if `args.average_attn_weights` is set, too. Throws c10::ValueError if `kdim` or
  /// `vdim` differ from E or if the width of `x` is not E, and the exceptions of
  /// `dot_product_attention` and `KvCache`.
  AttentionOutput forward(const torch::Tensor& x, const AttentionArgs& args = {},
                          const ForwardState& state = {});

  /// Cross-attention. `query` (B, T, E), `key` (B, S, kdim), `value` (B, S, vdim), or all without
  /// B; the mask broadcasts to (B, H, T, S). Returns the output (..., T, E) and, if
  /// `args.need_weights`, the weights: (..., H, T, S), or (..., T, S) if
  /// `args.average_attn_weights` is set, too. If `key` and `value` are the same tensor,
  /// `state.cache` caches their projections: see `KvCache::memory_keys`. Throws c10::ValueError if
  /// the width of an input is wrong or if a hook does not support cross-attention, and the
  /// exceptions of `dot_product_attention` and `KvCache`. `cross` is not an overload of `forward`,
  /// because `AnyModule` does not support overloads.
  AttentionOutput cross(const torch::Tensor& query, const torch::Tensor& key,
                        const torch::Tensor& value, const AttentionArgs& args = {},
                        const ForwardState& state = {});

  void reset() override;
  void check_submodules() const override;
  void pretty_print(std::ostream& stream) const override;

  MultiheadAttentionOptions options;  ///< options passed to the constructor
  torch::nn::Linear qkv{nullptr};     ///< joint projection; empty if kdim or vdim differ from E
  torch::nn::Linear query{nullptr};   ///< query projection; empty if `qkv` is used
  torch::nn::Linear key{nullptr};     ///< key projection; empty if `qkv` is used
  torch::nn::Linear value{nullptr};   ///< value projection; empty if `qkv` is used
  torch::nn::Linear out{nullptr};     ///< output projection

  /// Returns the dimensions, with the defaults of options that are not set.
  const AttentionDims& dims() const { return dims_; }

  /// A hook, which is a submodule.
  struct Hook {
    std::string name;                           ///< name of the submodule
    std::shared_ptr<torch::nn::Module> module;  ///< the submodule
    AttentionHook* hook;                        ///< same object as `module`
  };
  /// Returns the hooks, in the order in which they are called.
  const std::vector<Hook>& hooks() const { return hooks_; }

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(AttentionArgs())},
                           {2, torch::nn::AnyValue(ForwardState())})

 private:
  /// Returns the projections `first` .. `first + count - 1` of `x`: 0 = query, 1 = key, 2 = value.
  /// `x` (..., T, width); each projection (..., H or G, T, D).
  std::vector<torch::Tensor> project(const torch::Tensor& x, std::size_t first, std::size_t count);
  AttentionOutput attend_heads(AttentionContext context);

  AttentionDims dims_{};
  std::vector<Hook> hooks_;
};
ATTEND_MODULE(MultiheadAttention,
              (const torch::Tensor& x, const AttentionArgs& args = {},
               const ForwardState& state = {}),
              (x, args, state));

}  // namespace attend
