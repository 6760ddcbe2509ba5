#pragma once

#include "attend/export/export_options.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <optional>
#include <string>
#include <vector>

namespace attend {

/// The first operation that is called with another number for inputs of another shape, which a
/// trace therefore freezes: what it is called with, and which line of which function calls it.
/// Nothing if there is none.
std::optional<std::string> find_frozen_size(const torch::nn::Module& module,
                                            const Forward& function,
                                            const std::vector<torch::Tensor>& inputs,
                                            const std::vector<torch::Tensor>& others);

/// The same for any of the dynamic dimensions, one after the other a little larger.
std::optional<std::string> find_frozen_size(const torch::nn::Module& module,
                                            const Forward& function,
                                            const std::vector<torch::Tensor>& inputs,
                                            const std::vector<DynamicDimension>& dynamic);

/// Throws std::runtime_error if a traced method freezes a size that a recurrent layer would run
/// with: on a CPU these read beyond a state that is too small, where other operators throw.
void check_recurrent_layers(const torch::jit::Module& scripted, const std::string& method,
                            const torch::nn::Module& module, const Forward& function,
                            const std::vector<torch::Tensor>& inputs,
                            const std::vector<DynamicDimension>& dynamic);

}  // namespace attend
