#pragma once

#include "attend/api.h"
#include "attend/module_ref.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// Trainable parameters, split by whether weight decay applies.
struct ParameterGroups {
  std::vector<torch::Tensor> decay;     ///< matrices, embeddings, convolution weights
  std::vector<torch::Tensor> no_decay;  ///< biases, norms, scalars, attention sinks
};

/// Returns the trainable parameters of `module` in two groups, as in nanoGPT: weight decay applies
/// to parameters of two or more dimensions, except those of torch::nn::LayerNorm. Shared parameters
/// are included once; frozen parameters are not included.
///
///     const auto groups = parameter_groups(model);
///     torch::optim::OptimizerParamGroup no_decay(groups.no_decay);
ATTEND_API ParameterGroups parameter_groups(ConstModuleRef module);

}  // namespace attend
