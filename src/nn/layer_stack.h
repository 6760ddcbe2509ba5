#pragma once

#include "attend/nn/attention_hook.h"
#include "attend/nn/residual.h"
#include "nn/checks.h"
#include "nn/recompute_block.h"
#include "nn/submodules.h"

#include <torch/nn/modules/container/modulelist.h>

#include <memory>
#include <utility>

namespace attend {

// Functions that TransformerEncoder and TransformerDecoder share.

/// Returns the blocks of a stack. The probability of stochastic depth grows linearly with the index
/// of the layer, up to the value in `options.block()` for the last layer. `options.per_layer()` may
/// change all options of a layer, also this probability.
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

/// Runs `x = run_block(block, inputs, state)` for each block in turn and returns the last `x`,
/// which is an input of the next block. `outer` is the state that the caller passed to the encoder
/// or decoder. `state` has the cache and the hook of `outer`, the index of the layer, and the
/// tensors that the blocks share.
template <typename Block>
torch::Tensor run_blocks(const torch::nn::ModuleList& blocks, LayerInputs inputs,
                         const ForwardState& outer, bool gradient_checkpointing) {
  // Blocks are not recomputed if the caller passes a cache or a hook, which may no longer exist in
  // the backward pass.
  const bool recompute = gradient_checkpointing && torch::GradMode::is_enabled() &&
                         outer.cache == nullptr && outer.hook == nullptr;
  // A shared_ptr, because blocks that are recomputed in the backward pass use the tensors again.
  const auto shared = std::make_shared<SharedTensors>();
  torch::Tensor first_values;
  torch::Tensor first_relative_bias;
  ForwardState state{.cache = outer.cache,
                     .hook = outer.hook,
                     .shared = shared.get(),
                     .first_values = &first_values,
                     .first_relative_bias = &first_relative_bias};
  for (const auto& block : *blocks) {
    inputs.x = recompute ? recompute_block<Block>(block, inputs, state, shared)
                         : run_block(*block->as<Block>(), inputs, state);
    ++state.layer;
  }
  return inputs.x;
}

}  // namespace attend
