#pragma once

#include "attend/nn/module_factory.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace attend {

/// Throws c10::ValueError unless `registered` is true. `name`: name or index of the submodule.
template <typename Name>
void check_submodule(bool registered, const torch::nn::Module& owner, const Name& name) {
  TORCH_CHECK_VALUE(registered, "submodule ", name, " of ", owner.name(),
                    " is not the module that forward calls: pass the module in the options of the "
                    "constructor, or "
                    "replace both the registered submodule and the member, e.g. block->attention = "
                    "block->replace_module(\"attention\", attention)");
}

/// Throws c10::ValueError unless `module` is a registered submodule of `owner`. The check detects
/// calls of LibTorch's `replace_module`, which changes the registered submodules, but not the
/// members that `forward` calls. `children`: the result of `owner.children()`, which copies the
/// list of submodules.
inline void check_registered(const torch::nn::Module& owner,
                             const std::vector<std::shared_ptr<torch::nn::Module>>& children,
                             const std::string& name,
                             const std::shared_ptr<torch::nn::Module>& module) {
  const bool registered = std::find(children.begin(), children.end(), module) != children.end();
  check_submodule(registered, owner, name);
}

/// Returns `factory(width)`; `option` is the name of the option that contains `factory`. Throws
/// c10::ValueError if `factory` is empty or returns no module.
inline torch::nn::AnyModule make_module(const char* option, const ModuleFactory& factory,
                                        int64_t width) {
  TORCH_CHECK_VALUE(factory, option, " must not be an empty factory: set it, e.g. to rms_norm()");
  auto module = factory(width);
  TORCH_CHECK_VALUE(!module.is_empty(), option, " must return a module, found an empty AnyModule");
  return module;
}

}  // namespace attend
