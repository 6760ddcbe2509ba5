#pragma once

#include "support/close.h"

#include <torch/serialize.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace attend {

/// Returns the keys of the state dict: parameters, then buffers.
inline std::vector<std::string> state_names(const torch::nn::Module& module) {
  auto names = module.named_parameters().keys();
  for (const auto& name : module.named_buffers().keys()) names.push_back(name);
  return names;
}

/// Returns the number of elements of all parameters.
inline int64_t count_parameters(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

/// Returns the output of pretty_print for the module and its children.
inline std::string printed(const torch::nn::Module& module) {
  std::ostringstream stream;
  stream << module;
  return stream.str();
}

/// Checks that clones have the training mode and requires_grad of `module`, of a frozen eval
/// module, and of a module in which every second submodule and parameter differs.
inline void expect_clones_keep_training_flags(const torch::nn::Module& module) {
  const auto expect_same = [](const torch::nn::Module& original) {
    const auto copy = original.clone();
    const auto parts = copy->named_modules();
    const auto parameters = copy->named_parameters();
    for (const auto& part : original.named_modules()) {
      EXPECT_EQ(parts[part.key()]->is_training(), part.value()->is_training()) << part.key();
    }
    for (const auto& parameter : original.named_parameters()) {
      EXPECT_EQ(parameters[parameter.key()].requires_grad(), parameter.value().requires_grad())
          << parameter.key();
    }
  };
  expect_same(module);
  const auto changed = module.clone();
  changed->eval();
  for (auto& parameter : changed->parameters()) parameter.requires_grad_(false);
  expect_same(*changed);
  bool every_second = false;
  for (const auto& part : changed->modules()) part->train(every_second = !every_second);
  for (auto& parameter : changed->parameters())
    parameter.requires_grad_(every_second = !every_second);
  expect_same(*changed);
}

/// Checks that a clone computes the same as `module` and shares no parameters with it. Then saves
/// `module` with torch::save, loads it into `fresh` with torch::load, and checks that `fresh`
/// computes the same. `fresh` must have the same options as `module`, but other parameters. `run`
/// takes a module holder and returns a tensor.
template <typename Holder, typename Run>
void expect_clone_and_save_load_work(const Holder& module, Holder fresh, const Run& run) {
  const torch::NoGradGuard no_grad;
  expect_clones_keep_training_flags(*module);
  const auto expected = run(module);
  using Impl = typename Holder::ContainedType;
  const Holder copy(std::dynamic_pointer_cast<Impl>(module->clone()));
  EXPECT_TRUE(close(run(copy), expected, 0.0));
  for (auto& parameter : copy->parameters()) parameter.add_(torch::randn_like(parameter));
  EXPECT_TRUE(close(run(module), expected, 0.0)) << "the clone shares parameters";
  EXPECT_FALSE(close(run(copy), expected, 0.0)) << "the clone does not use its parameters";

  EXPECT_FALSE(close(run(fresh), expected, 0.0)) << "the fresh module already equals the saved one";
  std::stringstream file;
  torch::save(module, file);
  torch::load(fresh, file);
  EXPECT_TRUE(close(run(fresh), expected, 0.0));
}

}  // namespace attend
