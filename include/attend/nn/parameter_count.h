#pragma once

#include "attend/module_ref.h"

#include <unordered_set>

namespace attend {

/// Returns the number of elements of all parameters of `module`. The elements of a parameter that
/// several modules share are counted once.
///
///     std::cout << parameter_count(model) << " parameters";
inline int64_t parameter_count(ConstModuleRef module) {
  int64_t count = 0;
  std::unordered_set<const c10::TensorImpl*> counted;
  for (const auto& parameter : module->parameters()) {
    if (counted.insert(parameter.unsafeGetTensorImpl()).second) count += parameter.numel();
  }
  return count;
}

}  // namespace attend
