#include "attend/nn/trainable_parameters.h"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <unordered_map>

namespace attend {
namespace {

/// Returns the role of a parameter of `submodule`. `path` is the name of the submodule.
ParameterRole role_of(const torch::Tensor& parameter, const torch::nn::Module& submodule,
                      const std::string& path) {
  // torch::nn::LayerNorm is the only norm whose parameters may have two or more dimensions.
  const bool is_norm = submodule.as<torch::nn::LayerNorm>() != nullptr;
  if (parameter.dim() < 2 || is_norm) return ParameterRole::no_decay;
  const bool is_embedding = submodule.as<torch::nn::Embedding>() != nullptr ||
                            submodule.as<torch::nn::EmbeddingBag>() != nullptr;
  const bool is_head = path == "head" || path.ends_with(".head");
  const bool is_hidden = parameter.dim() == 2 && !is_embedding && !is_head;
  return is_hidden ? ParameterRole::hidden_matrix : ParameterRole::decay;
}

}  // namespace

std::vector<TrainableParameter> trainable_parameters(ConstModuleRef module, bool include_frozen) {
  std::vector<TrainableParameter> result;
  std::unordered_map<const c10::TensorImpl*, std::size_t> index_of;
  module->apply([&](const std::string& path, const torch::nn::Module& submodule) {
    for (const auto& item : submodule.named_parameters(/*recurse=*/false)) {
      const auto& parameter = item.value();
      if (!parameter.requires_grad() && !include_frozen) continue;
      const auto role = role_of(parameter, submodule, path);
      const auto [found, is_new] = index_of.emplace(parameter.unsafeGetTensorImpl(), result.size());
      if (is_new) {
        result.push_back({path.empty() ? item.key() : path + "." + item.key(), parameter, role});
      } else if (role == ParameterRole::decay &&
                 result[found->second].role == ParameterRole::hidden_matrix) {
        result[found->second].role = role;
      }
    }
  });
  return result;
}

}  // namespace attend
