#pragma once

#include "attend/nn/lora.h"

#include <torch/types.h>

namespace attend {

/// Sets B of all adapters of a module, which is 0 after `add_lora`, to random numbers.
inline void draw_adapters(ConstModuleRef module) {
  const torch::NoGradGuard no_grad;
  for (const auto& each : lora_adapters(module)) each.adapter->B.normal_(0.0, 0.3);
}

/// Returns a clone of a module without adapters, whose weights contain their products.
template <typename Holder>
Holder merged_copy(const Holder& module) {
  using Contained = typename Holder::ContainedType;
  Holder copy(std::dynamic_pointer_cast<Contained>(module->clone()));
  merge_and_remove_lora(copy);
  return copy;
}

}  // namespace attend
