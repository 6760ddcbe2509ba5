#pragma once

#include "attend/api.h"
#include "attend/ops/attention.h"
#include "attend/ops/positions.h"

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>

namespace attend {

class AttentionHook;

/// What attention carries over from earlier calls and from the layers below; a stack sets it.
struct ForwardState {
  /// Keys and values of the tokens before, to which those of this call are added: a `KvCache`;
  /// null = none. It acts before the attention's own parts.
  AttentionHook* cache = nullptr;
  /// Which layer of the cache is this attention's.
  int64_t layer = 0;
  /// Where the first layer of a stack leaves its values for those above; null = not in a stack.
  torch::Tensor* first_values = nullptr;
};

/// The widths of a multi-head attention.
struct AttentionDims {
  int64_t embed_dim;     ///< E, of input and output
  int64_t num_heads;     ///< H, of the queries
  int64_t num_kv_heads;  ///< G, of keys and values
  int64_t head_dim;      ///< D, of each
};

/// Attention on its way from projections to output.
struct AttentionContext {
  torch::Tensor input = {};  ///< (..., T, E): what the queries were projected from
  torch::Tensor query = {};  ///< (..., H, T, D)
  torch::Tensor key = {};    ///< (..., G, S, D)
  torch::Tensor value = {};  ///< (..., G, S, D)
  AttentionArgs args = {};
  ScoreOptions options = {};
  ForwardState state = {};
  bool cross = false;  ///< keys and values come from another sequence than the queries
};

/// Where the queries stand, in steps: (B, T) or (T).
inline torch::Tensor query_positions(const AttentionContext& context) {
  return context.args.positions.defined() ? context.args.positions
                                          : positions_like(context.query, -2);
}

/// A feature of multi-head attention: a position scheme, a norm of queries and keys, a gate... Each
/// is a module of its own that is called at up to three points; those of one attention are called
/// in the order in which they were added. A subclass overrides what it needs and also derives from
/// `torch::nn::Cloneable`.
class ATTEND_API AttentionHook {
 public:
  virtual ~AttentionHook() = default;

  /// Once this call's queries, keys and values are projected; before keys and values of earlier
  /// calls join them.
  virtual void after_projection(AttentionContext& /*context*/) {}

  /// Once all keys are there, before the scores are computed: to change masks and options.
  virtual void before_attention(AttentionContext& /*context*/) {}

  /// On the heads' results (..., H, T, D), before the output projection; returns the same shape.
  virtual torch::Tensor after_attention(const AttentionContext& /*context*/,
                                        const torch::Tensor& output) {
    return output;
  }
};

/// A part to be made: options hold these, and each attention makes its own.
///
///     MultiheadAttentionOptions(64, 4).add(rotary()).add(output_gate());
struct AttentionHookFactory {
  std::string name;  ///< under which the part is registered, as in `rotary`
  /// Makes the part: a module that is an `AttentionHook` too.
  std::function<std::shared_ptr<torch::nn::Module>(const AttentionDims&)> make;
};

}  // namespace attend
