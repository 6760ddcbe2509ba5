#pragma once

#include "attend/module_ref.h"

#include <utility>
#include <vector>

namespace attend {

/// Sets a module to eval mode until the end of the scope, then restores the training mode of each
/// submodule; a submodule whose `train()` throws is not restored.
///
///     const EvalGuard eval(model);
class EvalGuard {
 public:
  /// Sets `module` and its submodules to eval mode.
  explicit EvalGuard(ModuleRef module) {
    modes_.emplace_back(&*module, module->is_training());
    for (const auto& child : module->modules(/*include_self=*/false)) {
      modes_.emplace_back(child.get(), child->is_training());
    }
    module->eval();
  }
  ~EvalGuard() {
    // Parents first: train() sets the children, too.
    for (const auto& [module, training] : modes_) {
      try {
        module->train(training);
      } catch (...) {  // a destructor must not throw, but an overridden train() may
      }
    }
  }
  EvalGuard(const EvalGuard&) = delete;
  EvalGuard& operator=(const EvalGuard&) = delete;

 private:
  std::vector<std::pair<torch::nn::Module*, bool>> modes_;
};

}  // namespace attend
