#pragma once

#include <torch/types.h>

#include <map>
#include <string>

namespace attend::train {

/// Returns the states of LibTorch's global generators, which dropout uses: that of the CPU and, if
/// `device` is a GPU, that of the GPU.
std::map<std::string, torch::Tensor> random_states(torch::Device device);

/// Restores what `random_states` returned. The generator of a device without a saved state is left
/// unchanged, for example if a run is resumed on another device.
void set_random_states(torch::Device device, const std::map<std::string, torch::Tensor>& states);

}  // namespace attend::train
