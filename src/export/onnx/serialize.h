#pragma once

#include "attend/export/export_options.h"
#include "export/onnx/translate.h"

#include <map>
#include <string>

namespace attend::onnx {

/// Serializes a model to the bytes of a ModelProto. `weights` maps the names of the initializers to
/// tensors. `dimension_names` maps expressions of dynamic dimensions to names; other dynamic
/// dimensions get generated names. `metadata` is written as metadata properties.
std::string serialize(const Model& model, const std::map<std::string, torch::Tensor>& weights,
                      const std::map<std::string, std::string>& dimension_names,
                      const std::map<std::string, std::string>& metadata);

}  // namespace attend::onnx
