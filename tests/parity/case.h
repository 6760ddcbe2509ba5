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

/// Inputs and results of one PyTorch call, read from a file by make_cases.py or
/// make_optimizer_cases.py, which describe the tensors' names.
struct Case {
  std::string name;
  nlohmann::json options;
  TensorsByName tensors;

  /// Returns an option of this case.
  template <typename T>
  T get(const char* option) const {
    return options.at(option).get<T>();
  }
  /// Returns a bool option of this case.
  bool is(const std::string& option) const { return options.at(option).get<bool>(); }

  /// Returns the tensor `input.<name>`, or an undefined tensor.
  torch::Tensor input(const std::string& name) const;
  /// Returns the tensors whose names begin with `prefix`, with the prefix removed.
  TensorsByName with_prefix(const std::string& prefix) const;
  torch::ScalarType dtype() const;
};

/// Results of this library for a case.
struct Computed {
  TensorsByName outputs;
  std::shared_ptr<torch::nn::Module> module = nullptr;  ///< null for a function
};

std::vector<Case> load_cases(const std::filesystem::path& path);

/// Renames PyTorch's parameters or gradients to this library's names.
TensorsByName renamed(const Case& a_case, const TensorsByName& theirs);

/// Sets the module's dtype and parameters to those of the case. Throws InputError if the names do
/// not match.
void copy_parameters(const Case& a_case, torch::nn::Module& module);

// Each runs a case of one kind with this library.
Computed run_sdpa(const Case& a_case);
Computed run_mha(const Case& a_case);
Computed run_encoder(const Case& a_case);
Computed run_decoder(const Case& a_case);
Computed run_rms_norm(const Case& a_case);

}  // namespace attend::parity
