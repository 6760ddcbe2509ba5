#include "attend/nn/cloneable.h"

namespace attend::detail {

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

}  // namespace attend::detail
