#include "parity/case.h"

#include "attend/io/load_weights.h"
#include "attend/io/safetensors.h"

#include <utility>

namespace attend::parity {

torch::Tensor Case::input(const std::string& name) const {
  const auto found = tensors.find("input." + name);
  return found == tensors.end() ? torch::Tensor() : found->second;
}

TensorsByName Case::with_prefix(const std::string& prefix) const {
  TensorsByName found;
  for (const auto& [key, tensor] : tensors) {
    if (key.starts_with(prefix)) found.emplace(key.substr(prefix.size()), tensor);
  }
  return found;
}

torch::ScalarType Case::dtype() const {
  return get<std::string>("dtype") == "float64" ? torch::kDouble : torch::kFloat;
}

std::vector<Case> load_cases(const std::filesystem::path& path) {
  const auto file = load_safetensors(path);
  std::map<std::string, Case> cases;
  for (const auto& [key, text] : file.metadata) {
    auto options = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (options.is_object()) cases[key] = {key, std::move(options), {}};
  }
  for (const auto& [key, tensor] : file.tensors) {
    const auto slash = key.find('/');
    cases.at(key.substr(0, slash)).tensors.emplace(key.substr(slash + 1), tensor);
  }
  std::vector<Case> list;
  for (auto& [name, a_case] : cases) list.push_back(std::move(a_case));
  return list;
}

TensorsByName renamed(const Case& a_case, const TensorsByName& pytorch_name) {
  const bool is_decoder = a_case.get<std::string>("kind") == "decoder";
  TensorsByName attend_name;
  for (const auto& [name, tensor] : pytorch_name) {
    if (name == "in_proj_bias" && pytorch_name.contains("q_proj_weight")) {
      // PyTorch has one tensor for the three biases even with separate weights.
      const auto biases = tensor.chunk(3);
      attend_name["query.bias"] = biases[0];
      attend_name["key.bias"] = biases[1];
      attend_name["value.bias"] = biases[2];
      continue;
    }
    attend_name[is_decoder ? rename_pytorch_decoder(name) : rename_pytorch_encoder(name)] = tensor;
  }
  return attend_name;
}

void copy_parameters(const Case& a_case, torch::nn::Module& module) {
  module.to(a_case.dtype());
  load_state_dict(module, renamed(a_case, a_case.with_prefix("param.")));
}

}  // namespace attend::parity
