#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"

#include <torch/nn/module.h>

#include <vector>

namespace attend {

/// Returns by how much rounding errors can change each output of a call of the module: the largest
/// change if each floating point element of parameters, buffers and inputs moves to a neighbour
/// that its dtype can represent, in a random direction. Restores the parameters, the buffers and
/// the random number generators.
ATTEND_API std::vector<double> rounding_of_outputs(const torch::nn::Module& module,
                                                   const Forward& forward,
                                                   const std::vector<torch::Tensor>& inputs);

}  // namespace attend
