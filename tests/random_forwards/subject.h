#pragma once

#include "support/trace.h"

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace attend {

/// Sizes of the inputs of a subject: batch B, tokens T, source or memory tokens S.
struct InputSizes {
  int64_t batch;
  int64_t tokens;
  int64_t source_tokens;
};

/// A module with random options and weights, and the ways to call it.
struct Subject {
  using Module = torch::nn::Module;

  std::string description = {};  ///< class and options
  /// Makes the module, with the same weights each time: float64, in eval mode.
  std::function<std::shared_ptr<Module>(bool gradient_checkpointing)> make = {};
  /// Draws inputs of `run`, batch first; arguments that the subject does not use are undefined.
  std::function<Tensors(const InputSizes&)> draw_inputs = {};
  std::function<torch::Tensor(Module&, const Tensors&)> run = {};
  /// As `run`, token by token or in pieces with a KvCache; empty if the subject cannot.
  std::function<torch::Tensor(Module&, const Tensors&)> run_cached = {};
  /// As `run`, calling each layer of the stack alone; empty if it is no stack.
  std::function<torch::Tensor(Module&, const Tensors&)> run_layers = {};
  /// Appends `count` padding tokens to the inputs, masked by a key mask; empty if it cannot.
  std::function<Tensors(const Tensors&, int64_t count)> pad = {};
  bool has_checkpointing = false;  ///< `make(true)` differs from `make(false)`
  bool has_experts = false;        ///< rounding can change the choice of experts
};

/// Draws one of: attention, cross-attention, encoder, decoder, and the models.
Subject draw_subject();

}  // namespace attend
