#pragma once

#include "attend/export/export_options.h"
#include "export/onnx/translate.h"

#include <map>
#include <string>

namespace attend::onnx {

/// The bytes of a file. `weights` are by the names of the model's; `names_of_sizes` says how the
/// expressions of dynamic sizes are called, others are called by what they are. Throws
/// std::runtime_error for more than a file can hold.
std::string serialize(const Model& model, const std::map<std::string, torch::Tensor>& weights,
                      const std::map<std::string, std::string>& names_of_sizes,
                      const std::map<std::string, std::string>& metadata);

}  // namespace attend::onnx
