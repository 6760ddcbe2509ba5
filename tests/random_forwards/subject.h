#pragma once

#include "support/trace.h"

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace attend {

/// Sizes of the inputs of a subject: the batch size B, the number T of tokens, and the number S of
/// tokens in the source or memory.
struct InputSizes {
  int64_t batch;
  int64_t tokens;
  int64_t source_tokens;
};

/// A module with random options and weights, and the ways to call it.
struct Subject {
  using Module = torch::nn::Module;

  std::string description = {};  ///< class and options
  /// Creates the module in float64 and eval mode, with the same weights in each call.
  std::function<std::shared_ptr<Module>(bool gradient_checkpointing)> make = {};
  /// Draws the tensors for `run`, batch first. A tensor that the subject does not pass, such as a
  /// mask, is undefined.
  std::function<Tensors(const InputSizes&)> draw_inputs = {};
  std::function<torch::Tensor(Module&, const Tensors&)> run = {};
  /// As `run`, but in pieces of one or more tokens with a KvCache; empty if not supported.
  std::function<torch::Tensor(Module&, const Tensors&)> run_cached = {};
  /// As `run`, but in pieces with a KvCache; in each piece, the sequences have different numbers of
  /// tokens and are padded. Empty if not supported.
  std::function<torch::Tensor(Module&, const Tensors&)> run_cached_ragged = {};
  /// As `run`, but calls each layer of the stack separately; empty if not supported.
  std::function<torch::Tensor(Module&, const Tensors&)> run_layers = {};
  /// Appends `count` padding tokens to each sequence of the inputs. A key mask or causal attention
  /// hides them from the other tokens. Empty if not supported.
  std::function<Tensors(const Tensors&, int64_t count)> pad = {};
  bool has_checkpointing = false;        ///< `make(true)` differs from `make(false)`
  bool is_discontinuous = false;         ///< see is_discontinuous in subject.cpp
  bool normalizes_two_channels = false;  ///< see normalizes_two_channels in subject.cpp
};

/// Draws self-attention, cross-attention, an encoder, an encoder-decoder or a model.
Subject draw_subject();

}  // namespace attend
