#pragma once

#include "attend/nn/attention_hook.h"
#include "attend/nn/checkpoint.h"
#include "attend/nn/mixture_of_experts.h"
#include "attend/nn/residual.h"
#include "nn/checks.h"
#include "nn/submodules.h"

#include <torch/nn/modules/container/modulelist.h>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace attend {

// Shared by TransformerEncoder and TransformerDecoder.

/// Returns the blocks of a stack. The probability of stochastic depth grows linearly with the
/// layer, up to the value in `options.block()` for the last one.
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

/// The tensors of `AttentionArgs`.
inline constexpr std::array kArgsTensors{&AttentionArgs::mask,      &AttentionArgs::key_mask,
                                         &AttentionArgs::segments,  &AttentionArgs::key_segments,
                                         &AttentionArgs::positions, &AttentionArgs::key_positions};

/// The tensors of `ForwardState` that the first block sets and later ones read.
inline constexpr std::array kFirstTensors{&ForwardState::first_values,
                                          &ForwardState::first_relative_bias};

/// Returns the mixtures of experts of a block in training mode, which set their `aux_loss`.
inline std::vector<MixtureOfExpertsImpl*> training_mixtures(const torch::nn::Module& block) {
  std::vector<MixtureOfExpertsImpl*> mixtures;
  for (const auto& module : block.modules(/*include_self=*/false)) {
    auto* mixture = module->as<MixtureOfExperts>();
    if (mixture != nullptr && mixture->is_training()) mixtures.push_back(mixture);
  }
  return mixtures;
}

/// Returns `forward(block, x, memory, args, memory_args, state)` with gradient checkpointing. All
/// tensors that the block reads are arguments of `checkpoint`, so that they get gradients and
/// in-place changes are detected; all tensors that it computes are outputs. `shared` and the module
/// `block` are kept alive until the backward pass.
template <typename Block, typename Forward>
torch::Tensor recompute_block(const std::shared_ptr<torch::nn::Module>& block,
                              const torch::Tensor& x, const torch::Tensor& memory,
                              const AttentionArgs& args, const AttentionArgs& memory_args,
                              const ForwardState& state,
                              const std::shared_ptr<SharedTensors>& shared,
                              const Forward& forward) {
  std::vector<torch::Tensor> inputs{x, memory};
  for (const auto tensor : kFirstTensors) inputs.push_back(*(state.*tensor));
  for (const auto* each : {&args, &memory_args}) {
    for (const auto tensor : kArgsTensors) inputs.push_back(each->*tensor);
  }
  // For each aux_loss and each tensor of kFirstTensors: true if the block has computed it.
  const auto computed = std::make_shared<std::vector<bool>>();
  const auto run = [=](const std::vector<torch::Tensor>& tensors) {
    auto next = tensors.begin() + 2;
    auto run_state = state;
    run_state.shared = shared.get();
    std::array<torch::Tensor, kFirstTensors.size()> first;
    for (std::size_t i = 0; i < first.size(); ++i) {
      first[i] = *next++;
      run_state.*kFirstTensors[i] = &first[i];
    }
    const auto given = first;
    auto run_args = args;
    auto run_memory_args = memory_args;
    for (auto* each : {&run_args, &run_memory_args}) {
      for (const auto tensor : kArgsTensors) each->*tensor = *next++;
    }
    std::vector<torch::Tensor> outputs;
    computed->clear();
    const auto add = [&](const torch::Tensor& tensor) {
      computed->push_back(tensor.defined());
      if (tensor.defined()) outputs.push_back(tensor);
    };

    const auto mixtures = training_mixtures(*block);
    std::vector<torch::Tensor> losses_before;
    for (auto* mixture : mixtures) losses_before.push_back(std::exchange(mixture->aux_loss, {}));
    outputs.push_back(
        forward(*block->as<Block>(), tensors[0], tensors[1], run_args, run_memory_args, run_state));
    for (std::size_t i = 0; i < mixtures.size(); ++i) {
      add(std::exchange(mixtures[i]->aux_loss, losses_before[i]));
    }
    for (std::size_t i = 0; i < first.size(); ++i) {
      // Copies: the values are a view of a larger tensor, and a parameter must not be an output.
      const bool is_new = first[i].defined() && !given[i].defined();
      add(is_new ? first[i].clone() : torch::Tensor());
    }
    return outputs;
  };

  const auto outputs = checkpoint(run, inputs, block->parameters());
  std::vector<torch::Tensor*> targets;
  for (auto* mixture : training_mixtures(*block)) targets.push_back(&mixture->aux_loss);
  for (const auto tensor : kFirstTensors) targets.push_back(state.*tensor);
  auto next = outputs.begin() + 1;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if ((*computed)[i]) *targets[i] = *next++;
  }
  return outputs.front();
}

/// Runs `x = forward(block, x, memory, args, memory_args, state)` for each block in turn and
/// returns the last `x`; `memory` is undefined in encoders. `outer` is the caller's state.
template <typename Block, typename Forward>
torch::Tensor run_blocks(const torch::nn::ModuleList& blocks, torch::Tensor x,
                         const torch::Tensor& memory, const AttentionArgs& args,
                         const AttentionArgs& memory_args, const ForwardState& outer,
                         bool gradient_checkpointing, const Forward& forward) {
  // A cache and the caller's hook may no longer exist in the backward pass.
  const bool recompute = gradient_checkpointing && torch::GradMode::is_enabled() &&
                         outer.cache == nullptr && outer.hook == nullptr;
  // On the heap: recomputed blocks use it in the backward pass.
  const auto shared = std::make_shared<SharedTensors>();
  torch::Tensor first_values;
  torch::Tensor first_relative_bias;
  ForwardState state{.cache = outer.cache,
                     .hook = outer.hook,
                     .shared = shared.get(),
                     .first_values = &first_values,
                     .first_relative_bias = &first_relative_bias};
  check_submodules(blocks);
  for (const auto& block : *blocks) {
    x = recompute
            ? recompute_block<Block>(block, x, memory, args, memory_args, state, shared, forward)
            : forward(*block->as<Block>(), x, memory, args, memory_args, state);
    ++state.layer;
  }
  return x;
}

/// Returns the norm after the last block, registered in `owner`; empty if not `enabled`.
inline torch::nn::AnyModule make_final_norm(torch::nn::Module& owner, bool enabled,
                                            const ModuleFactory& make, int64_t width) {
  if (!enabled) return {};
  auto norm = make_module("norm", make, width);
  owner.register_module("norm", norm.ptr());
  return norm;
}

}  // namespace attend
