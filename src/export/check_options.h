#pragma once

#include "attend/export/export_options.h"

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace attend {

/// Throws c10::ValueError, naming what was found and what is expected, for options that do not fit
/// the example.
void check_options(const ExportOptions& options, const std::vector<torch::Tensor>& example_inputs);

/// Throws c10::ValueError unless it can be a name in Python's and in TorchScript's source.
void check_name(const char* what, const std::string& name);

/// Throws c10::ValueError for parameters, buffers and modules whose names the files cannot hold:
/// those with other characters than letters, digits and _, words of Python, and what its modules
/// have themselves, as forward.
void check_state_names(const torch::nn::Module& module);

}  // namespace attend
