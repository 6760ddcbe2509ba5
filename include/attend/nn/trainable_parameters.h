#pragma once

#include "attend/api.h"
#include "attend/module_ref.h"

#include <torch/types.h>

#include <string>
#include <vector>

namespace attend {

/// Role of a parameter for an optimizer.
enum class ParameterRole {
  hidden_matrix,  ///< weight decay; matrix of a hidden layer, so Muon can be used
  decay,     ///< weight decay: embeddings, the head, and parameters of more than two dimensions
  no_decay,  ///< no weight decay: biases, norms, scalars, attention sinks
};

/// A parameter of a module, with its name and role.
struct TrainableParameter {
  std::string name;      ///< name in the state dict
  torch::Tensor tensor;  ///< the parameter
  ParameterRole role;    ///< role for an optimizer
};

/// Returns the parameters of `module` that require a gradient or, with `include_frozen`, all
/// parameters, in the order of the state dict. Matrices of a submodule named `head` have the role
/// `decay`. A parameter shared by several modules is included once, under its first name, and has
/// the role `hidden_matrix` only if it has this role in all of these modules. Joint matrices such
/// as `attention.qkv` are one parameter.
///
///     for (const auto& [name, tensor, role] : trainable_parameters(model)) std::cout << name;
ATTEND_API std::vector<TrainableParameter> trainable_parameters(ConstModuleRef module,
                                                                bool include_frozen = false);

}  // namespace attend
