#pragma once

#include "attend/api.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <vector>

namespace attend {

/// The parameters that an optimizer trains, by whether weight decay applies to them.
struct ParameterGroups {
  std::vector<torch::Tensor> decay;     ///< matrices and tables
  std::vector<torch::Tensor> no_decay;  ///< biases, norms, scalars, attention sinks
};

/// Sorts the parameters of `module`, as GPT-2's followers do: those of two dimensions or more
/// decay, except in norms. A parameter that several modules share is there once, a frozen one not
/// at all.
///
///     const auto groups = parameter_groups(*model);
///     torch::optim::OptimizerParamGroup others(groups.no_decay);
ATTEND_API ParameterGroups parameter_groups(const torch::nn::Module& module);

}  // namespace attend
