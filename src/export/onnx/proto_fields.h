#pragma once

#include <protozero/types.hpp>

/// Field numbers from onnx.proto, for the writer and the reader of ONNX files. Each enum has the
/// name of a message in onnx.proto, except for nested messages: `TensorTypeProto` is
/// TypeProto.Tensor, and `DimensionProto` is TensorShapeProto.Dimension.
namespace attend {

enum class ModelProto : protozero::pbf_tag_type {
  ir_version = 1,
  producer_name = 2,
  producer_version = 3,
  graph = 7,
  opset_import = 8,
  metadata_props = 14,
};
enum class GraphProto : protozero::pbf_tag_type {
  node = 1,
  name = 2,
  initializer = 5,
  input = 11,
  output = 12,
};
enum class NodeProto : protozero::pbf_tag_type {
  input = 1,
  output = 2,
  name = 3,
  op_type = 4,
  attribute = 5,
  domain = 7,
};
enum class AttributeProto : protozero::pbf_tag_type {
  name = 1,
  f = 2,
  i = 3,
  s = 4,
  t = 5,
  floats = 7,
  ints = 8,
  strings = 9,
  type = 20,
};
enum class TensorProto : protozero::pbf_tag_type {
  dims = 1,
  data_type = 2,
  name = 8,
  raw_data = 9,
  external_data = 13,
  data_location = 14,
};
enum class ValueInfoProto : protozero::pbf_tag_type { name = 1, type = 2 };
enum class TypeProto : protozero::pbf_tag_type { tensor_type = 1 };
enum class TensorTypeProto : protozero::pbf_tag_type { elem_type = 1, shape = 2 };
enum class TensorShapeProto : protozero::pbf_tag_type { dim = 1 };
enum class DimensionProto : protozero::pbf_tag_type { dim_value = 1, dim_param = 2 };
enum class OperatorSetIdProto : protozero::pbf_tag_type { domain = 1, version = 2 };
enum class StringStringEntryProto : protozero::pbf_tag_type { key = 1, value = 2 };

}  // namespace attend
