#pragma once

#include "attend/nn/norms.h"
#include "attend/nn/rotary.h"
#include "attend/nn/transformer_block.h"
#include "ops/decoding_step.h"

#include <torch/nn/modules/container/modulelist.h>

#include <memory>
#include <optional>
#include <vector>

namespace attend {

/// The decoding step of a stack of blocks, in which each sequence gets one token: the attention of
/// a block is one call, and its feed-forward another. A plan is made for one forward pass, because
/// weights, modules and modes may change between two.
class DecodingPlan {
 public:
  /// Returns the plan of `blocks`, or std::nullopt if the forward passes of the blocks must be
  /// called: unless each sequence gets one token, attention is causal without other arguments, and
  /// each block has `NormOrder::pre`, LayerNorm or RMSNorm, and weights that are read in float32,
  /// int8 or int4.
  /// Supports the hooks `qk_norm`, `rotary` and `sliding_window`, in this order.
  static std::optional<DecodingPlan> of(const torch::nn::ModuleListImpl& blocks,
                                        const torch::Tensor& x, const AttentionArgs& args,
                                        const ForwardState& state);
  /// Returns the plan of a block that is not in a stack. `state.layer`: its layer in the cache.
  static std::optional<DecodingPlan> of(TransformerBlockImpl& block, const torch::Tensor& x,
                                        const AttentionArgs& args, const ForwardState& state);

  /// Returns the output (B, 1, E) of the blocks for `x` (B, 1, E).
  torch::Tensor run(const torch::Tensor& x);

 private:
  struct Layer {
    TransformerBlockImpl* block;
    AttentionStep attention;
    std::optional<FeedForwardStep> feed_forward;  // not set: the module computes it
  };

  DecodingPlan(KvCache& cache, int64_t first_layer) : cache_(&cache), first_layer_(first_layer) {}
  /// Returns false if the forward pass of `block` must be called.
  bool add(TransformerBlockImpl& block, const torch::Tensor& x);
  /// Returns the rotation of the new tokens. Layers with equal frequencies share it.
  std::shared_ptr<const StepRotation> rotation_of(const RotaryImpl& rotary);

  KvCache* cache_;
  int64_t first_layer_;
  std::vector<Layer> layers_;
  // The last rotation, and what it was computed from.
  std::shared_ptr<const StepRotation> rotation_;
  const std::vector<double>* frequencies_ = nullptr;
  double scaling_ = 1.0;
};

/// Returns the output of an attention without hooks that is not part of a `DecodingPlan`, or an
/// undefined tensor if operators must compute it.
torch::Tensor decoding_step(const MultiheadAttentionImpl& attention, const torch::Tensor& x,
                            const AttentionArgs& args, const ForwardState& state);

/// Return the norm of the rows of a step. It refers to the tensors of the module.
StepNorm step_of(const LayerNormImpl& norm);
StepNorm step_of(const RMSNormImpl& norm);

/// Returns the step of a feed-forward for a few rows `x`, or std::nullopt if operators must compute
/// it. With a norm, this is the residual branch x + feed_forward(norm(x)).
std::optional<FeedForwardStep> step_of(const FeedForwardImpl& feed_forward, const torch::Tensor& x,
                                       const std::optional<StepNorm>& norm = {});

}  // namespace attend
