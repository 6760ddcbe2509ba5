#pragma once

#include "attend/nn/attention_hook.h"
#include "attend/nn/checkpoint.h"
#include "attend/nn/decoder_block.h"
#include "attend/nn/mixture_of_experts.h"
#include "attend/nn/transformer_block.h"
#include "ops/args_tensors.h"

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace attend {

/// The inputs of a block. Encoder blocks have neither `memory` nor `memory_args`.
struct LayerInputs {
  torch::Tensor x;
  torch::Tensor memory = {};
  AttentionArgs args = {};
  AttentionArgs memory_args = {};
};

inline torch::Tensor run_block(TransformerBlockImpl& block, const LayerInputs& inputs,
                               const ForwardState& state) {
  return block.forward(inputs.x, inputs.args, state);
}

inline torch::Tensor run_block(DecoderBlockImpl& block, const LayerInputs& inputs,
                               const ForwardState& state) {
  return block.forward(inputs.x, inputs.memory, inputs.args, inputs.memory_args, state);
}

/// The tensors of `ForwardState` that the first block sets and the later blocks read.
inline constexpr std::array kFirstTensors{&ForwardState::first_values,
                                          &ForwardState::first_relative_bias};

/// The tensors of a MixtureOfExperts that its forward pass sets.
inline constexpr std::array kMixtureTensors{&MixtureOfExpertsImpl::aux_loss,
                                            &MixtureOfExpertsImpl::router_sums};

/// Returns the MixtureOfExperts modules in `block` that are in training mode. The forward pass sets
/// the tensors of `kMixtureTensors` of these modules.
inline std::vector<MixtureOfExpertsImpl*> training_mixtures(const torch::nn::Module& block) {
  std::vector<MixtureOfExpertsImpl*> mixtures;
  for (const auto& module : block.modules(/*include_self=*/false)) {
    auto* mixture = module->as<MixtureOfExperts>();
    if (mixture != nullptr && mixture->is_training()) mixtures.push_back(mixture);
  }
  return mixtures;
}

/// Returns `run_block(block, inputs, state)` with gradient checkpointing. The input tensors and the
/// parameters of the block are arguments of `checkpoint`, which computes their gradients and
/// detects in-place changes. The results of the block are outputs of `checkpoint`: the returned
/// tensor, the tensors of `kMixtureTensors`, and those of `kFirstTensors` that the block sets.
/// `shared` and the module `block` are kept alive until the backward pass.
template <typename Block>
torch::Tensor recompute_block(const std::shared_ptr<torch::nn::Module>& block,
                              const LayerInputs& inputs, const ForwardState& state,
                              const std::shared_ptr<SharedTensors>& shared) {
  std::vector<torch::Tensor> all_tensors{inputs.x, inputs.memory};
  for (const auto tensor : kFirstTensors) all_tensors.push_back(*(state.*tensor));
  for (const auto* each : {&inputs.args, &inputs.memory_args}) {
    for (const auto tensor : kArgsTensors) all_tensors.push_back(each->*tensor);
  }
  // Without `x` and `memory`: `checkpoint` releases them after the backward pass, but `run` lives
  // longer.
  const LayerInputs args{.x = {}, .args = inputs.args, .memory_args = inputs.memory_args};
  // For each tensor of kMixtureTensors and of kFirstTensors: true if the block has computed it.
  const auto computed = std::make_shared<std::vector<bool>>();
  const auto run = [=](const std::vector<torch::Tensor>& tensors) {
    auto next = tensors.begin();
    auto run_inputs = args;
    run_inputs.x = *next++;
    run_inputs.memory = *next++;
    auto run_state = state;
    run_state.shared = shared.get();
    std::array<torch::Tensor, kFirstTensors.size()> first;
    for (std::size_t i = 0; i < first.size(); ++i) {
      first[i] = *next++;
      run_state.*kFirstTensors[i] = &first[i];
    }
    const auto given = first;
    for (auto* each : {&run_inputs.args, &run_inputs.memory_args}) {
      for (const auto tensor : kArgsTensors) each->*tensor = *next++;
    }
    std::vector<torch::Tensor> outputs;
    computed->clear();
    const auto add = [&](const torch::Tensor& tensor) {
      computed->push_back(tensor.defined());
      if (tensor.defined()) outputs.push_back(tensor);
    };

    const auto mixtures = training_mixtures(*block);
    std::vector<torch::Tensor> before;
    for (auto* mixture : mixtures) {
      for (const auto tensor : kMixtureTensors)
        before.push_back(std::exchange(mixture->*tensor, {}));
    }
    outputs.push_back(run_block(*block->as<Block>(), run_inputs, run_state));
    auto next_before = before.begin();
    for (auto* mixture : mixtures) {
      for (const auto tensor : kMixtureTensors)
        add(std::exchange(mixture->*tensor, *next_before++));
    }
    for (std::size_t i = 0; i < first.size(); ++i) {
      // Cloned for two reasons: first_values may be a view, which would keep a larger tensor in
      // memory, and first_relative_bias is a parameter, which must not be an output of
      // `checkpoint`.
      const bool is_new = first[i].defined() && !given[i].defined();
      add(is_new ? first[i].clone() : torch::Tensor());
    }
    return outputs;
  };

  const auto outputs = checkpoint(run, all_tensors, block->parameters());
  std::vector<torch::Tensor*> targets;
  for (auto* mixture : training_mixtures(*block)) {
    for (const auto tensor : kMixtureTensors) targets.push_back(&(mixture->*tensor));
  }
  for (const auto tensor : kFirstTensors) targets.push_back(state.*tensor);
  auto next = outputs.begin() + 1;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if ((*computed)[i]) *targets[i] = *next++;
  }
  return outputs.front();
}

}  // namespace attend
