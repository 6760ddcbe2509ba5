#pragma once

#include <torch/nn/module.h>

#include <string>
#include <string_view>

namespace attend {

/// Format of an exported file.
enum class TargetFormat { torchscript, pt2, onnx };

/// Returns true for a name that consists of letters, digits and _, without a leading digit.
bool is_identifier(std::string_view name);

/// Throws c10::ValueError if `name` cannot be the name of an input in a file of this format. The
/// message suggests the formats that support the name.
void check_input_name(const std::string& name, TargetFormat format);

/// Throws c10::ValueError if `name` cannot be the name of a method in a TorchScript file.
void check_method_name(const std::string& name);

/// Throws c10::ValueError if a parameter, buffer or submodule has a name that a file of this format
/// cannot contain, or that LibTorch or Python cannot load from such a file. The message gives the
/// reason, and lists the formats that allow the name.
void check_state_names(const torch::nn::Module& module, TargetFormat format);

}  // namespace attend
