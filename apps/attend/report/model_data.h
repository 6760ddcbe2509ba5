#pragma once

#include <nlohmann/json.hpp>
#include <torch/nn/module.h>

#include <cstddef>
#include <string>

namespace attend::app {

/// Returns the entry `model` in the JSON of the report: the tree of the modules, with the number of
/// parameters of each. Successive modules of a ModuleList with equal trees, such as the blocks of a
/// stack, are one entry: `repeats` is their number, and `parameters` is the number of each.
nlohmann::ordered_json model_tree(const std::string& name, const torch::nn::Module& module);

/// Keeps the first `max` modules of a tree, level by level from the root. Returns the number of
/// modules before.
std::size_t limit_modules(nlohmann::ordered_json& tree, std::size_t max);

}  // namespace attend::app
