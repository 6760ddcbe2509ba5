#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/pimpl.h>

namespace attend {

// Modules that accept any length, but whose trace specializes a dimension to the size of the
// example. Compiled with debug information, so that messages can name source lines.

struct FreezesItsLengthImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(FreezesItsLength);

struct ReshapesToItsLengthImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(ReshapesToItsLength);

/// An LSTM whose initial state has the batch size of the input.
struct FreezesItsBatchImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(3, 4));
};
TORCH_MODULE(FreezesItsBatch);

/// A module whose number of operations depends on the length.
struct DoublesLongInputsImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(DoublesLongInputs);

}  // namespace attend
