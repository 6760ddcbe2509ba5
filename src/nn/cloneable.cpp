#include "attend/nn/cloneable.h"

#include "nn/submodules.h"

#include <torch/nn/modules/container/modulelist.h>

namespace attend {

void check_all_submodules(const torch::nn::Module& module) {
  const auto check = [](const torch::nn::Module& each) {
    if (const auto* checked = dynamic_cast<const SubmoduleChecks*>(&each))
      checked->check_submodules();
  };
  check(module);
  for (const auto& child : module.modules(/*include_self=*/false)) check(*child);
}

namespace detail {

void check_used(const torch::nn::Module& owner, const UsedSubmodules& used) {
  const auto registered = owner.named_children();
  for (const auto& [name, member] : used) {
    const auto* module = member(owner);
    if (module == nullptr) continue;
    const auto* found = registered.find(name);
    check_submodule(found != nullptr && found->get() == module, owner, name);
    const auto* list = module->as<torch::nn::ModuleList>();
    if (list == nullptr) continue;
    const auto children = list->children();
    for (std::size_t i = 0; i < children.size(); ++i) {
      check_submodule(children[i] == list->ptr(i), *list, i);
    }
  }
}

void copy_training_flags(const torch::nn::Module& original, torch::nn::Module& copy) {
  // `train` also changes the submodules of `copy`, whose own mode is set afterwards.
  if (copy.is_training() != original.is_training()) copy.train(original.is_training());
  auto parameters = copy.named_parameters(/*recurse=*/false);
  for (const auto& parameter : original.named_parameters(/*recurse=*/false)) {
    if (auto* found = parameters.find(parameter.key())) {
      found->requires_grad_(parameter.value().requires_grad());
    }
  }
  const auto children = copy.named_children();
  for (const auto& child : original.named_children()) {
    if (const auto* found = children.find(child.key()))
      copy_training_flags(*child.value(), **found);
  }
}

}  // namespace detail
}  // namespace attend
