#pragma once

#include "attend/module_ref.h"
#include "attend/nn/cloneable.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace attend {

/// Sets a module and its submodules to eval mode. At the end of the scope, restores the training
/// mode of each of them, except those whose `train()` throws. If the module and its submodules are
/// already in eval mode, the guard does not write to them, so other threads may use the module at
/// the same time.
///
///     const EvalGuard eval(model);
class EvalGuard {
 public:
  /// Sets `module` and its submodules to eval mode. Throws c10::ValueError if
  /// `check_all_submodules` throws.
  explicit EvalGuard(ModuleRef module) {
    check_all_submodules(*module);
    modes_.emplace_back(&*module, module->is_training());
    for (const auto& child : module->modules(/*include_self=*/false)) {
      modes_.emplace_back(child.get(), child->is_training());
    }
    const bool is_eval =
        std::none_of(modes_.begin(), modes_.end(), [](const auto& mode) { return mode.second; });
    if (is_eval) {
      modes_.clear();
    } else {
      module->eval();
    }
  }
  ~EvalGuard() {
    // Parents are restored before their children, because train() also sets the children.
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
