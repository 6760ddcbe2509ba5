#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/pimpl.h>

namespace attend {

// Modules for which a trace specializes a dimension, since no expression of sizes computes what
// they read. Their source is compiled with debug information, so that messages contain line
// numbers.

/// Divides by the sine of the length.
struct SpecializesLengthImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(SpecializesLength);

/// Keeps as many elements as the length has bits that are set.
struct NarrowsToBitsImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(NarrowsToBits);

/// An LSTM with an initial state for which `forward` calls additional operators if the batch is
/// large.
struct SpecializesBatchImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(3, 4));
};
TORCH_MODULE(SpecializesBatch);

/// Specializes the length in an inlined function outside of the namespace attend.
struct CallsInlinedFunctionImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(CallsInlinedFunction);

/// Calls a cell for each position of sequences of shape (B, T, 3).
struct LoopsOverACellImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
  torch::nn::GRUCell cell = register_module("cell", torch::nn::GRUCell(3, 4));
};
TORCH_MODULE(LoopsOverACell);

/// Adds the positions of sequences of shape (B, T) in a loop.
struct LoopsOverPositionsImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(LoopsOverPositions);

/// Calls additional operators for long inputs.
struct DoublesLongInputsImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(DoublesLongInputs);

}  // namespace attend
