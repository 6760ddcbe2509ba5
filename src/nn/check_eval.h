#pragma once

#include "attend/nn/cloneable.h"

namespace attend {

/// Throws c10::ValueError if `module` or a submodule is in training mode, or if
/// `check_all_submodules` throws.
inline void check_eval(const char* function, const torch::nn::Module& module) {
  check_all_submodules(module);
  constexpr const char* kAdvice = " in training mode: call model->eval() first";
  TORCH_CHECK_VALUE(!module.is_training(), function, " requires eval mode, found a model", kAdvice);
  for (const auto& child : module.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    TORCH_CHECK_VALUE(!child.value()->is_training(), function, " requires eval mode, found ",
                      child.key(), kAdvice);
  }
}

}  // namespace attend
