#pragma once

#include <torch/types.h>

#include <map>
#include <string>

namespace attend::train {

/// The states of LibTorch's global generators, which dropout draws from: that of the CPU and, if
/// `device` is a GPU, its own.
std::map<std::string, torch::Tensor> random_states(torch::Device device);

/// Takes what `random_states` gave. A run that moves to another device goes on with that device's
/// numbers as they are: nothing there could continue the old ones.
void set_random_states(torch::Device device, const std::map<std::string, torch::Tensor>& states);

}  // namespace attend::train
