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

/// Inputs and results of one PyTorch call, or of 50 optimizer steps in PyTorch. They are read from
/// a file that make_cases.py or make_optimizer_cases.py has written. The docstrings of these
/// scripts describe the tensors.
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

/// Results of attend for a case.
struct Computed {
  TensorsByName outputs;
  std::shared_ptr<torch::nn::Module> module = nullptr;  ///< null for a function
};

std::vector<Case> load_cases(const std::filesystem::path& path);

/// Returns parameters or gradients with PyTorch's names replaced by attend's names.
TensorsByName renamed(const Case& a_case, const TensorsByName& pytorch_name);

/// Sets the dtype and the parameters of `module` to the values of the case. Throws InputError if
/// the names do not match.
void copy_parameters(const Case& a_case, torch::nn::Module& module);

// Each function computes the results of attend for a case of one kind.
Computed run_sdpa(const Case& a_case);
Computed run_mha(const Case& a_case);
Computed run_encoder(const Case& a_case);
Computed run_decoder(const Case& a_case);
Computed run_rms_norm(const Case& a_case);

}  // namespace attend::parity
