#pragma once

#include <torch/nn/module.h>

#include <utility>
#include <vector>

namespace attend {

/// Puts a module in eval mode until the end of the scope, then gives each of its submodules the
/// mode back that it had.
///
///     const EvalGuard eval(*model);
class EvalGuard {
 public:
  explicit EvalGuard(torch::nn::Module& module) {
    modes_.emplace_back(&module, module.is_training());
    for (const auto& child : module.modules(/*include_self=*/false)) {
      modes_.emplace_back(child.get(), child->is_training());
    }
    module.eval();
  }
  ~EvalGuard() {
    // Each before its children, because train() sets the children too.
    for (const auto& [module, training] : modes_) module->train(training);
  }
  EvalGuard(const EvalGuard&) = delete;
  EvalGuard& operator=(const EvalGuard&) = delete;

 private:
  std::vector<std::pair<torch::nn::Module*, bool>> modes_;
};

}  // namespace attend
