#pragma once

#include "attend/nn/module_factory.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

namespace attend {

/// A module that `forward` calls, and the name under which it was registered.
struct UsedSubmodule {
  /// `holder`: a module holder or an AnyModule; if empty, no module is used.
  template <typename Holder>
  UsedSubmodule(std::string_view name, const Holder& holder)
      : name(name), module(holder.is_empty() ? nullptr : holder.ptr().get()) {}
  UsedSubmodule(std::string_view name, const std::shared_ptr<torch::nn::Module>& pointer)
      : name(name), module(pointer.get()) {}

  std::string_view name;
  const torch::nn::Module* module;  // null = none
};

template <typename Name>
void check_submodule(bool registered, const torch::nn::Module& owner, const Name& name) {
  TORCH_CHECK_VALUE(registered, "submodule ", name, " of ", owner.name(),
                    " is not the module that forward calls: pass the module in the options of the "
                    "constructor, or "
                    "replace both the registered submodule and the member, e.g. block->attention = "
                    "block->replace_module(\"attention\", attention)");
}

/// Throws c10::ValueError unless all modules in `used` are registered submodules of `owner`. The
/// check detects calls of LibTorch's `replace_module`, which changes the registered submodules, but
/// not the members that `forward` calls. `children`: the result of `owner.children()`, which copies
/// the list of submodules.
inline void check_registered(const torch::nn::Module& owner,
                             const std::vector<std::shared_ptr<torch::nn::Module>>& children,
                             std::initializer_list<UsedSubmodule> used) {
  for (const auto& each : used) {
    const auto is_used = [&](const auto& child) { return child.get() == each.module; };
    check_submodule(
        each.module == nullptr || std::any_of(children.begin(), children.end(), is_used), owner,
        each.name);
  }
}

/// Calls `check_registered` with `owner.children()`.
inline void check_registered(const torch::nn::Module& owner,
                             std::initializer_list<UsedSubmodule> used) {
  check_registered(owner, owner.children(), used);
}

/// Throws c10::ValueError unless each element of `list` is the registered submodule with the same
/// index. The check detects calls of `replace_module`, which changes the registered submodules, but
/// not the elements.
inline void check_registered(const torch::nn::ModuleList& list) {
  const auto children = list->children();
  for (std::size_t i = 0; i < children.size(); ++i) {
    check_submodule(children[i] == list->ptr(i), *list, i);
  }
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
