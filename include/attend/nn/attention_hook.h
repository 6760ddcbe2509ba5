#pragma once

#include "attend/api.h"
#include "attend/nn/shared_tensors.h"
#include "attend/ops/attention.h"
#include "attend/ops/positions.h"

#include <c10/util/SmallVector.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>

namespace attend {

class AttentionHook;
class KvCache;
class OffsetBias;

/// State of one forward pass, passed to each attention module: the KV cache, the index of the
/// layer, and tensors that the layers of a stack share. A stack is a `TransformerEncoder` or a
/// `TransformerDecoder`; it sets all fields except `cache` and `hook`.
///
///     attention->forward(x, {.causal = true}, {.cache = &cache, .layer = 0});
struct ForwardState {
  /// KV cache; null = none. Self-attention appends the keys and values of this call to the cache.
  /// Cross-attention stores the keys and values of the memory in it.
  KvCache* cache = nullptr;
  /// Index of this layer among the layers of `cache`.
  int64_t layer = 0;
  /// Additional hook for this call, e.g. another kind of cache; called before the hooks of the
  /// attention module. Null = none.
  AttentionHook* hook = nullptr;
  /// Tensors that the layers of a stack share, such as masks, rotary tables and ALiBi biases.
  /// Null = not in a stack.
  SharedTensors* shared = nullptr;
  /// Values (..., G, T, D) of the stack's first layer. `ValueResidual` sets this tensor in the
  /// first layer and reads it in the other layers. Null = not in a stack.
  torch::Tensor* first_values = nullptr;

  /// Table (num_buckets, H) of relative position biases. `relative_bias` sets this tensor in the
  /// stack's first layer, and `shared_relative_bias` reads it in the other layers. Null = not in a
  /// stack.
  torch::Tensor* first_relative_bias = nullptr;

  /// Returns the tensor that `compute()` returns. In each forward pass of a stack, the first layer
  /// that needs the tensor computes it, and all layers with an equal `key` get the same tensor.
  ///
  /// In a decoder, self-attention and cross-attention get the same tensor if they pass equal
  /// `SharedKey`s. A hook that supports self-attention and cross-attention must therefore add
  /// `context.cross` to the numbers of `key`. Otherwise the two `SharedKey`s may be equal if source
  /// and target have the same length. A program traced with such inputs would use one tensor for
  /// both attentions, which is wrong for inputs of different lengths.
  ///
  ///     const SharedKey key("decay", context.query, {positions}, rate);
  ///     const auto decay = context.state.share(key, [&] { return decay_at(positions, rate); });
  template <typename Compute>
  torch::Tensor share(const SharedKey& key, const Compute& compute) const {
    return share(&SharedTensors::tensors, key, compute);
  }

  /// As above, for a value of another slot.
  template <typename Value, typename Compute>
  Value share(SharedSlot<Value> SharedTensors::*slot, const SharedKey& key,
              const Compute& compute) const {
    return shared != nullptr ? (shared->*slot).get(key, compute) : compute();
  }
};

/// Dimensions of a `MultiheadAttention`.
struct AttentionDims {
  int64_t embed_dim;     ///< width E of input and output
  int64_t num_heads;     ///< number of query heads H
  int64_t num_kv_heads;  ///< number of key-value heads G
  int64_t head_dim;      ///< width D of each head
};

/// The tensors and options of one attention call. Hooks may assign other tensors and options, but
/// must not change a tensor in place, since other layers may share the tensor.
struct AttentionContext {
  torch::Tensor input = {};   ///< (..., T, E): input of the query projection
  torch::Tensor query = {};   ///< (..., H, T, D)
  torch::Tensor key = {};     ///< (..., G, S, D)
  torch::Tensor value = {};   ///< (..., G, S, D)
  AttentionArgs args = {};    ///< arguments of the call
  ScoreOptions options = {};  ///< options of the layer
  ForwardState state = {};    ///< state of the forward pass
  bool cross = false;         ///< true in cross-attention (keys and values of another sequence)
  /// A position bias that a hook got from `state.share`. If `options.bias` is the same tensor, the
  /// layers also share the sum of bias and mask. Otherwise, `shared_bias` is ignored.
  torch::Tensor shared_bias = {};
  /// Biases that depend only on the offset (key position - query position). They are added to the
  /// scores after `before_attention` of all hooks has been called. The pointers must be valid until
  /// the end of the attention call.
  c10::SmallVector<OffsetBias*, 2> offset_biases = {};
};

/// A position bias that depends only on the offset (key position - query position), such as ALiBi.
/// For long sequences, attention adds the bias block by block and does not store the biases of all
/// (T, S) pairs. A hook that implements this class calls `context.offset_biases.push_back(this)` in
/// its `before_attention`.
class ATTEND_API OffsetBias {
 public:
  virtual ~OffsetBias() = default;

  /// `offsets` (1, N), int64: key position - query position. Returns the bias (H, 1, N) at each
  /// offset; the bias may require a gradient.
  virtual torch::Tensor bias_of(const torch::Tensor& offsets, const AttentionContext& context) = 0;

  /// Adds the bias (..., H, T, S) of all pairs of queries and keys to `context.options.bias`.
  virtual void add_bias(AttentionContext& context) = 0;
};

/// Returns the positions of the queries, (B, T) or (T): `args.positions` or, if not set, 0 .. T-1.
/// For use in `after_projection`. With a `KvCache`, the result may be wrong in `before_attention`,
/// where `args.positions` may be unset although the queries do not start at position 0.
inline torch::Tensor query_positions(const AttentionContext& context) {
  return context.args.positions.defined() ? context.args.positions
                                          : positions_like(context.query, -2);
}

/// Base class of optional features of `MultiheadAttention`, such as position encodings, query-key
/// norms and gates. A hook is a module with methods that are called at three points of the forward
/// pass. The hooks of an attention module are called in the order in which they were added.
/// Subclasses override the methods that they need and also derive from `Cloneable`.
class ATTEND_API AttentionHook {
 public:
  virtual ~AttentionHook() = default;

  /// Called after the queries, keys and values of this call's tokens are projected, before cached
  /// keys and values are prepended.
  virtual void after_projection(AttentionContext& /*context*/) {}

  /// Called after cached keys and values are prepended, before the scores are computed. May change
  /// masks, biases and options.
  virtual void before_attention(AttentionContext& /*context*/) {}

  /// Called with the attention output (..., H, T, D) before the output projection; returns a tensor
  /// of the same shape.
  virtual torch::Tensor after_attention(const AttentionContext& /*context*/,
                                        const torch::Tensor& output) {
    return output;
  }
};

/// Factory of a hook. Options contain factories instead of hooks, because each attention module
/// creates its own hooks.
///
///     MultiheadAttentionOptions(64, 4).add(rotary()).add(output_gate());
struct AttentionHookFactory {
  std::string name;  ///< name of the submodule, e.g. `rotary`; must not be empty or contain a dot
  /// Returns a new module that is also an `AttentionHook`.
  std::function<std::shared_ptr<torch::nn::Module>(const AttentionDims&)> make;
};

}  // namespace attend
