#pragma once

#include <nlohmann/json.hpp>
#include <torch/nn/module.h>

#include <string>

namespace attend::app {

/// Returns the entry `model` in the JSON of the report: the tree of the modules, with the number of
/// parameters of each. Successive modules of a ModuleList with equal trees, such as the blocks of a
/// stack, are one entry: `repeats` is their number, and `parameters` is the number of each.
nlohmann::ordered_json model_tree(const std::string& name, const torch::nn::Module& module);

}  // namespace attend::app
