#pragma once

#include <protozero/types.hpp>

/// Field numbers from onnx.proto, for the writer and the reader of ONNX files. Each enum has the
/// name of a message in onnx.proto.
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
  initializer = 5,
  input = 11,
  output = 12,
};
enum class TensorProto : protozero::pbf_tag_type {
  dims = 1,
  data_type = 2,
  name = 8,
  raw_data = 9,
  external_data = 13,
  data_location = 14,
};
enum class OperatorSetIdProto : protozero::pbf_tag_type { domain = 1, version = 2 };
enum class StringStringEntryProto : protozero::pbf_tag_type { key = 1, value = 2 };

}  // namespace attend
