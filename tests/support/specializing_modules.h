#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/pimpl.h>

namespace attend {

// Modules for which a trace specializes a dimension. Their source is compiled with debug
// information, so that messages contain line numbers.

struct SpecializesLengthImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(SpecializesLength);

struct ReshapesToLengthImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(ReshapesToLength);

/// An LSTM whose initial state is created in `forward`: a trace specializes its batch size.
struct SpecializesBatchImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(3, 4));
};
TORCH_MODULE(SpecializesBatch);

/// Calls additional operators for long inputs.
struct DoublesLongInputsImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(DoublesLongInputs);

}  // namespace attend
