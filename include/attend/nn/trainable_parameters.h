#pragma once

#include "attend/api.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>
#include <vector>

namespace attend {

/// What a parameter is to an optimizer.
enum class ParameterRole {
  hidden_matrix,  ///< a matrix between hidden layers: decays, and is what Muon is for
  decay,          ///< what else decays: embeddings, the head, and more than two dimensions
  no_decay,       ///< biases, norms, scalars, attention sinks
};

/// A parameter that is trained.
struct TrainableParameter {
  std::string name;  ///< as in the state dict
  torch::Tensor tensor;
  ParameterRole role;
};

/// The parameters of `module` that are not frozen, in its order; with `include_frozen`, all. The
/// head is a module registered as `head`. A parameter that several modules share is there once, by
/// its first name; it is a hidden matrix only if it is one in each of them. The matrices that a
/// module keeps joined are one, such as the (3*E, E) of `attention.qkv`; those of experts are one
/// for each expert.
///
///     for (const auto& [name, tensor, role] : trainable_parameters(*model)) ...
ATTEND_API std::vector<TrainableParameter> trainable_parameters(const torch::nn::Module& module,
                                                                bool include_frozen = false);

}  // namespace attend
