#pragma once

#include "attend/api.h"
#include "attend/nn/shared_tensors.h"
#include "attend/ops/attention.h"
#include "attend/ops/positions.h"

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace attend {

class AttentionHook;
class KvCache;

/// State of one forward pass that an attention needs besides its input: the cache, the index of its
/// layer, and what the layers of a stack share. Stacks set all but `cache` and `hook`.
///
///     attention->forward(x, {.causal = true}, {.cache = &cache, .layer = 0});
struct ForwardState {
  /// Keys and values of earlier calls, which the call's own are appended to; null = none.
  KvCache* cache = nullptr;
  /// Index of this attention's layer in the cache.
  int64_t layer = 0;
  /// A hook of the call that runs before the attention's own, e.g. another kind of cache; null =
  /// none.
  AttentionHook* hook = nullptr;
  /// Masks, rotary tables and biases that the layers of a stack share; null = not in a stack.
  SharedTensors* shared = nullptr;
  /// Values of the stack's first layer, set by it and read by `ValueResidual`; null = not in a
  /// stack.
  torch::Tensor* first_values = nullptr;

  /// Table (num_buckets, H) of the relative position bias of the stack's first layer, set by it and
  /// read by `shared_relative_bias`; null = not in a stack.
  torch::Tensor* first_relative_bias = nullptr;

  /// Returns `compute()`, which in a stack is called once per key and forward pass. The self- and
  /// cross-attention of a decoder share it, too: where both are possible, `context.cross` belongs
  /// to the key, since sizes that are equal in a trace may differ later.
  ///
  ///     const SharedKey key("decay", context.query, {positions}, rate);
  ///     const auto decay = context.state.share(key, [&] { return decay_at(positions, rate); });
  template <typename Compute>
  auto share(const SharedKey& key, const Compute& compute) const -> std::invoke_result_t<Compute> {
    return shared != nullptr ? shared->get(key, compute) : compute();
  }
};

/// The dimensions of a multi-head attention.
struct AttentionDims {
  int64_t embed_dim;     ///< width E of input and output
  int64_t num_heads;     ///< number of query heads H
  int64_t num_kv_heads;  ///< number of key-value heads G
  int64_t head_dim;      ///< width D of each head
};

/// A position bias that depends on the offset, key position - query position, alone, such as
/// ALiBi's: attention of long sequences computes it in blocks, without the biases of all (T, S)
/// pairs. Tensors that require a gradient may be read by `of_offsets`.
struct OffsetBias {
  /// Returns the bias (H, 1, N) of `offsets` (1, N), int64.
  std::function<torch::Tensor(const torch::Tensor& offsets)> of_offsets;
  /// Adds the bias (..., H, T, S) of all pairs to `context.options.bias`.
  std::function<void(struct AttentionContext& context)> add_all;
};

/// The tensors and options of one attention call. Hooks may replace them, but must not change
/// tensors in place: other layers can share them.
struct AttentionContext {
  torch::Tensor input = {};   ///< (..., T, E): input of the query projection
  torch::Tensor query = {};   ///< (..., H, T, D)
  torch::Tensor key = {};     ///< (..., G, S, D)
  torch::Tensor value = {};   ///< (..., G, S, D)
  AttentionArgs args = {};    ///< arguments of the call
  ScoreOptions options = {};  ///< options of the layer
  ForwardState state = {};    ///< state of the forward pass
  bool cross = false;         ///< cross-attention: keys and values come from another sequence
  /// `options.bias` if it comes from `state.share`, so that its sum with the mask can be shared
  /// too; a hook that replaces the bias ends this.
  torch::Tensor shared_bias = {};
  /// Biases that depend on the offset alone, added to `options.bias` after all hooks.
  std::vector<OffsetBias> offset_biases = {};
};

/// Returns the positions of the queries in tokens, (B, T) or (T): those of the call, or 0 .. T-1.
inline torch::Tensor query_positions(const AttentionContext& context) {
  return context.args.positions.defined() ? context.args.positions
                                          : positions_like(context.query, -2);
}

/// Base class of the features of multi-head attention: position schemes, query-key norms, gates...
/// A hook is a module, called at up to three points of the forward pass; the hooks of an attention
/// are called in the order in which they were added. Subclasses override what they need and also
/// derive from `torch::nn::Cloneable`.
class ATTEND_API AttentionHook {
 public:
  virtual ~AttentionHook() = default;

  /// Called after the projections of this call's tokens, before cached keys and values are
  /// prepended.
  virtual void after_projection(AttentionContext& /*context*/) {}

  /// Called when all keys and values are present, before the scores are computed: to change masks,
  /// biases and options.
  virtual void before_attention(AttentionContext& /*context*/) {}

  /// Called with the attention output (..., H, T, D) before the output projection; returns the
  /// same shape.
  virtual torch::Tensor after_attention(const AttentionContext& /*context*/,
                                        const torch::Tensor& output) {
    return output;
  }
};

/// Makes a hook; options contain factories, since each attention makes its own hooks.
///
///     MultiheadAttentionOptions(64, 4).add(rotary()).add(output_gate());
struct AttentionHookFactory {
  std::string name;  ///< name of the submodule, e.g. `rotary`
  /// Returns a new module that is also an `AttentionHook`.
  std::function<std::shared_ptr<torch::nn::Module>(const AttentionDims&)> make;
};

}  // namespace attend
