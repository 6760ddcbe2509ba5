#pragma once

#include "attend/nn/attention_hook.h"
#include "attend/nn/checkpoint.h"
#include "attend/nn/residual.h"
#include "nn/checks.h"

#include <torch/nn/modules/container/modulelist.h>

#include <memory>
#include <vector>

namespace attend {

// Shared by TransformerEncoder and TransformerDecoder.

/// Returns the blocks of a stack. The stochastic depth grows linearly with the layer, up to that of
/// `options.block()` in the last one.
template <typename Block, typename StackOptions>
torch::nn::ModuleList make_blocks(const StackOptions& options) {
  const int64_t num_layers = options.num_layers();
  const double stochastic_depth = options.block().residual().stochastic_depth();
  check_not_negative("num_layers", num_layers);
  check_probability("stochastic_depth", stochastic_depth);
  torch::nn::ModuleList blocks;
  for (int64_t i = 0; i < num_layers; ++i) {
    auto layer = options.block();
    layer.residual().stochastic_depth(stochastic_depth * static_cast<double>(i + 1) /
                                      static_cast<double>(num_layers));
    if (options.per_layer()) options.per_layer()(i, layer);
    blocks->push_back(Block(layer));
  }
  return blocks;
}

/// Runs `x = forward(block, x, memory, state)` for each block in turn and returns the last `x`;
/// `memory` is undefined in encoders. `outer` is the caller's state.
template <typename Block, typename Forward>
torch::Tensor run_blocks(const torch::nn::ModuleList& blocks, torch::Tensor x,
                         const torch::Tensor& memory, const ForwardState& outer,
                         bool gradient_checkpointing, const Forward& forward) {
  // On the heap: recomputed blocks use it in the backward pass.
  const auto shared = std::make_shared<SharedTensors>();
  torch::Tensor first_values;
  torch::Tensor first_relative_bias;
  ForwardState state{
      .cache = outer.cache,
      .hook = outer.hook,
      .shared = shared.get(),
      // A recomputed block must depend on its inputs alone.
      .first_values = gradient_checkpointing ? nullptr : &first_values,
      .first_relative_bias = gradient_checkpointing ? nullptr : &first_relative_bias};
  for (const auto& child : *blocks) {
    auto& block = *child->as<Block>();
    if (gradient_checkpointing) {
      std::vector<torch::Tensor> inputs{x};
      if (memory.defined()) inputs.push_back(memory);
      const auto run = [&block, shared, state, forward](const std::vector<torch::Tensor>& tensors) {
        return forward(block, tensors.front(), tensors.back(), state);
      };
      x = checkpoint(run, inputs, block.parameters());
    } else {
      x = forward(block, x, memory, state);
    }
    ++state.layer;
  }
  return x;
}

/// Throws c10::ValueError if `mask` requires a gradient: a recomputed block does not compute it.
inline void check_recomputable(bool gradient_checkpointing, const torch::Tensor& mask) {
  TORCH_CHECK_VALUE(!gradient_checkpointing || !mask.defined() || !mask.requires_grad(),
                    "gradient_checkpointing (true) does not support a mask that requires a "
                    "gradient, found one of shape ",
                    mask.sizes());
}

/// Returns the norm after the last block, registered in `owner`; empty if not `enabled`.
inline torch::nn::AnyModule make_final_norm(torch::nn::Module& owner, bool enabled,
                                            const ModuleFactory& make, int64_t width) {
  if (!enabled) return {};
  auto norm = make(width);
  owner.register_module("norm", norm.ptr());
  return norm;
}

}  // namespace attend
