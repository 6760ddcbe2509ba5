#pragma once

#include "attend/export/export_options.h"

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace attend {

/// Throws c10::ValueError if the options are invalid or do not match the example inputs. The
/// message names the value found and the value expected.
void check_options(const ExportOptions& options, const std::vector<torch::Tensor>& example_inputs);

/// Throws c10::ValueError if `name` is not a valid identifier in Python and TorchScript. The
/// message begins with `what`.
void check_name(const char* what, const std::string& name);

/// Throws c10::ValueError if a parameter, buffer or submodule has a name that the export formats do
/// not allow: a name with characters other than letters, digits and _, a name with a leading __, a
/// Python keyword, or the name of an attribute of Python modules, such as `forward`.
void check_state_names(const torch::nn::Module& module);

}  // namespace attend
