#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/pimpl.h>

namespace attend {

// Modules that take any length, but of which a trace remembers the one that it was made with. Their
// source is compiled with debugging information, so that messages can name its lines.

struct FreezesItsLengthImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(FreezesItsLength);

struct ReshapesToItsLengthImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(ReshapesToItsLength);

/// An LSTM that begins with a state of its own making, as large as the batch.
struct FreezesItsBatchImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(3, 4));
};
TORCH_MODULE(FreezesItsBatch);

/// More calls for some lengths than for others.
struct DoublesLongInputsImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(DoublesLongInputs);

}  // namespace attend
