#include "attend/nn/parameter_groups.h"

#include <torch/nn/modules/normalization.h>

#include <unordered_set>

namespace attend {

ParameterGroups parameter_groups(const torch::nn::Module& module) {
  ParameterGroups groups;
  std::unordered_set<const c10::TensorImpl*> seen;
  module.apply([&](const torch::nn::Module& part) {
    // The one norm whose parameters may have the shape of a matrix.
    const bool is_norm = part.as<torch::nn::LayerNorm>() != nullptr;
    for (const auto& parameter : part.parameters(/*recurse=*/false)) {
      const bool is_new = seen.insert(parameter.unsafeGetTensorImpl()).second;
      if (!is_new || !parameter.requires_grad()) continue;
      auto& group = parameter.dim() >= 2 && !is_norm ? groups.decayed : groups.others;
      group.push_back(parameter);
    }
  });
  return groups;
}

}  // namespace attend
