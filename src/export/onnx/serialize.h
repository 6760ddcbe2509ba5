#pragma once

#include "attend/export/export_options.h"
#include "export/onnx/translate.h"

#include <cstddef>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace attend::onnx {

/// Names of dynamic dimensions, by the expressions of their sizes.
using DimensionNames = std::map<program::Expression, std::string>;

/// A weight in the second file ("external data" in ONNX).
struct ExternalWeight {
  torch::Tensor tensor;
  std::size_t offset = 0;  ///< in bytes
};

/// A serialized model.
struct SerializedModel {
  std::string model;                     ///< bytes of a ModelProto
  std::vector<ExternalWeight> external;  ///< weights in the second file, by offset; may be empty
};

/// Serializes a model. `weights` maps the names of the initializers to tensors. Dynamic dimensions
/// that are not in `dimension_names` get generated names. `metadata` is written as metadata
/// properties. The weights are in a second file, except the smallest ones, if `external_data` is
/// true or the ModelProto would exceed the limit of protobuf; `location` is the name of this file.
/// Throws std::runtime_error if the ModelProto exceeds the limit nevertheless, or if ONNX's checker
/// rejects it.
SerializedModel serialize(const Model& model, const std::map<std::string, torch::Tensor>& weights,
                          const DimensionNames& dimension_names,
                          const std::map<std::string, std::string>& metadata,
                          const std::string& location, bool external_data);

/// Writes the second file.
void write_external(std::ostream& file, const std::vector<ExternalWeight>& weights);

}  // namespace attend::onnx
