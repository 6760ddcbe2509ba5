#include "attend/nn/trainable_parameters.h"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <unordered_map>

namespace attend {
namespace {

/// The role of a parameter of `part`, which stands at `path`.
ParameterRole role_of(const torch::Tensor& parameter, const torch::nn::Module& part,
                      const std::string& path) {
  // The one norm whose parameters may have the shape of a matrix.
  const bool is_norm = part.as<torch::nn::LayerNorm>() != nullptr;
  if (parameter.dim() < 2 || is_norm) return ParameterRole::no_decay;
  const bool is_table =
      part.as<torch::nn::Embedding>() != nullptr || part.as<torch::nn::EmbeddingBag>() != nullptr;
  const bool is_head = path == "head" || path.ends_with(".head");
  const bool is_hidden = parameter.dim() == 2 && !is_table && !is_head;
  return is_hidden ? ParameterRole::hidden_matrix : ParameterRole::decay;
}

}  // namespace

std::vector<TrainableParameter> trainable_parameters(const torch::nn::Module& module,
                                                     bool include_frozen) {
  std::vector<TrainableParameter> trained;
  std::unordered_map<const c10::TensorImpl*, std::size_t> index_of;
  module.apply([&](const std::string& path, const torch::nn::Module& part) {
    for (const auto& item : part.named_parameters(/*recurse=*/false)) {
      const auto& parameter = item.value();
      if (!parameter.requires_grad() && !include_frozen) continue;
      const auto role = role_of(parameter, part, path);
      const auto [found, is_new] =
          index_of.emplace(parameter.unsafeGetTensorImpl(), trained.size());
      if (is_new) {
        trained.push_back({path.empty() ? item.key() : path + "." + item.key(), parameter, role});
      } else if (role == ParameterRole::decay &&
                 trained[found->second].role == ParameterRole::hidden_matrix) {
        trained[found->second].role = role;
      }
    }
  });
  return trained;
}

}  // namespace attend
