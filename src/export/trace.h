#pragma once

#include "attend/export/export_options.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace attend {

/// A scripted module with the tree, the names and the tensors of `module`, but without methods.
torch::jit::Module mirror(const torch::nn::Module& module);

/// Whether a node of a trace calls an operator; others are constants, lists and weights.
bool is_call(const torch::jit::Node& node);

/// Adds a method of the operators that `function` calls for these inputs. Inputs without a name in
/// `input_names` are called input0, input1, ...
void add_traced_method(torch::jit::Module& scripted, const std::string& name,
                       const Forward& function, const std::vector<torch::Tensor>& inputs,
                       const std::vector<std::string>& input_names);

}  // namespace attend
