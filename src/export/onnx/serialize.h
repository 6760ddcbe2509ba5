#pragma once

#include "attend/export/export_options.h"
#include "export/onnx/translate.h"

#include <map>
#include <string>

namespace attend::onnx {

/// Names of dynamic dimensions, by the expressions of their sizes.
using DimensionNames = std::map<program::Expression, std::string>;

/// Serializes a model to the bytes of a ModelProto. `weights` maps the names of the initializers to
/// tensors. Dynamic dimensions that are not in `dimension_names` get generated names. `metadata` is
/// written as metadata properties.
std::string serialize(const Model& model, const std::map<std::string, torch::Tensor>& weights,
                      const DimensionNames& dimension_names,
                      const std::map<std::string, std::string>& metadata);

}  // namespace attend::onnx
