#pragma once

#include "attend/nn/attention_hook.h"
#include "attend/nn/checkpoint.h"
#include "attend/nn/residual.h"
#include "nn/checks.h"

#include <torch/nn/modules/container/modulelist.h>

#include <functional>
#include <vector>

namespace attend {

// What encoder and decoder stacks share: blocks that are made and run one after the other.

/// Makes `num_layers` blocks; block i drops its branches with a probability that grows evenly up to
/// that of `options`.
template <typename Block, typename BlockOptions>
torch::nn::ModuleList make_blocks(const BlockOptions& options, int64_t num_layers) {
  check_not_negative("num_layers", num_layers);
  check_probability("stochastic_depth", options.residual().stochastic_depth());
  torch::nn::ModuleList blocks;
  for (int64_t i = 0; i < num_layers; ++i) {
    auto layer = options;
    layer.residual().stochastic_depth(options.residual().stochastic_depth() *
                                      static_cast<double>(i + 1) / static_cast<double>(num_layers));
    blocks->push_back(Block(layer));
  }
  return blocks;
}

/// Runs `forward(block, inputs, state)` for each block in turn; the first of the inputs is then
/// replaced by its result, which is returned at the end. The cache of `given` is passed on, with
/// the number of the layer.
template <typename Block, typename Forward>
torch::Tensor run_blocks(const torch::nn::ModuleList& blocks, std::vector<torch::Tensor> inputs,
                         const ForwardState& given, bool gradient_checkpointing,
                         const Forward& forward) {
  torch::Tensor first_values;
  // What is recomputed must depend on its inputs alone.
  ForwardState state{.cache = given.cache,
                     .first_values = gradient_checkpointing ? nullptr : &first_values};
  for (const auto& child : *blocks) {
    auto& block = *child->as<Block>();
    const std::function<torch::Tensor(const std::vector<torch::Tensor>&)> run =
        [&block, state, forward](const std::vector<torch::Tensor>& tensors) {
          return forward(block, tensors, state);
        };
    inputs[0] = gradient_checkpointing ? checkpoint(run, inputs, block.parameters()) : run(inputs);
    ++state.layer;
  }
  return inputs[0];
}

/// Throws c10::ValueError for a mask that is to learn: one that a recomputed block only refers to
/// gets no gradient.
inline void check_recomputable(bool gradient_checkpointing, const torch::Tensor& mask) {
  TORCH_CHECK_VALUE(!gradient_checkpointing || !mask.defined() || !mask.requires_grad(),
                    "checkpoint (true) gives a mask no gradient, found one that requires it, of "
                    "shape ",
                    mask.sizes());
}

/// The norm after the last block: `make`'s, registered in `owner`, or nothing.
inline torch::nn::AnyModule make_final_norm(torch::nn::Module& owner, bool wanted,
                                            const ModuleFactory& make, int64_t width) {
  if (!wanted) return {};
  auto norm = make(width);
  owner.register_module("norm", norm.ptr());
  return norm;
}

}  // namespace attend
