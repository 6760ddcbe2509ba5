#pragma once

#include <nlohmann/json.hpp>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace attend::parity {

using TensorsByName = std::map<std::string, torch::Tensor>;

/// What PyTorch was called with and what it gave: one case of a file by make_cases.py or
/// make_optimizer_cases.py, which describe the names.
struct Case {
  std::string name;
  nlohmann::json options;
  TensorsByName tensors;

  /// An option of this case.
  template <typename T>
  T get(const char* option) const {
    return options.at(option).get<T>();
  }
  bool is(const std::string& option) const { return options.at(option).get<bool>(); }

  /// The tensor `input.<name>`, or an undefined one.
  torch::Tensor input(const std::string& name) const;
  /// The tensors whose names begin with `prefix`, without it.
  TensorsByName with_prefix(const std::string& prefix) const;
  torch::ScalarType dtype() const;
};

/// What this library makes of a case.
struct Computed {
  TensorsByName outputs;
  std::shared_ptr<torch::nn::Module> module = nullptr;  ///< null for a function
};

std::vector<Case> load_cases(const std::filesystem::path& path);

/// PyTorch's parameters, or their gradients, under the names that they have here.
TensorsByName renamed(const Case& a_case, const TensorsByName& theirs);

/// Gives the module the dtype and the parameters of the case. Throws InputError unless each of its
/// parameters is among them, and each of them among its.
void copy_parameters(const Case& a_case, torch::nn::Module& module);

// One function a kind: does with this library what the case did with PyTorch.
Computed run_sdpa(const Case& a_case);
Computed run_mha(const Case& a_case);
Computed run_encoder(const Case& a_case);
Computed run_decoder(const Case& a_case);
Computed run_rms_norm(const Case& a_case);

}  // namespace attend::parity
