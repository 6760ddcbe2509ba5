#include "attend/export/onnx_contents.h"

#include "attend/input_error.h"
#include "io/dtypes.h"
#include "io/files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <protozero/pbf_message.hpp>

namespace attend {
namespace {

// Field numbers from onnx.proto. Each enum has the name of a message in onnx.proto.
enum class ModelProto : protozero::pbf_tag_type {
  graph = 7,
  opset_import = 8,
  metadata_props = 14
};
enum class OperatorSetIdProto : protozero::pbf_tag_type { domain = 1, version = 2 };
enum class StringStringEntryProto : protozero::pbf_tag_type { key = 1, value = 2 };
enum class GraphProto : protozero::pbf_tag_type {
  node = 1,
  initializer = 5,
  input = 11,
  output = 12
};
enum class NodeProto : protozero::pbf_tag_type { op_type = 4 };
enum class TensorProto : protozero::pbf_tag_type { dims = 1, data_type = 2, name = 8 };
enum class ValueInfoProto : protozero::pbf_tag_type { name = 1, type = 2 };
enum class TypeProto : protozero::pbf_tag_type { tensor_type = 1 };
enum class TensorTypeProto : protozero::pbf_tag_type { elem_type = 1, shape = 2 };
enum class TensorShapeProto : protozero::pbf_tag_type { dim = 1 };
enum class Dimension : protozero::pbf_tag_type { dim_value = 1, dim_param = 2 };

template <typename Tag>
using Message = protozero::pbf_message<Tag>;

/// Calls `use` with the message before each of its fields is read. Fields that `use` does not read
/// are skipped.
template <typename Tag, typename Use>
void for_each_field(Message<Tag> message, const Use& use) {
  while (message.next()) {
    if (!use(message)) message.skip();
  }
}

std::string dtype_name(int32_t type) {
  const auto* dtype = type == 0 ? nullptr : find_dtype(&Dtype::onnx, type);
  return dtype == nullptr ? fmt::format("ONNX type {}", type)
                          : std::string(c10::getDtypeNames(dtype->type).first);
}

std::string dimension(Message<Dimension> message) {
  std::string text = "?";
  for_each_field(message, [&](auto& field) {
    if (field.tag() == Dimension::dim_value)
      text = fmt::format("{}", field.get_int64());
    else if (field.tag() == Dimension::dim_param)
      text = field.get_string();
    else
      return false;
    return true;
  });
  return text;
}

std::string tensor_type(Message<TensorTypeProto> message) {
  int32_t type = 0;
  std::vector<std::string> shape;
  for_each_field(message, [&](auto& field) {
    if (field.tag() == TensorTypeProto::elem_type) {
      type = field.get_int32();
    } else if (field.tag() == TensorTypeProto::shape) {
      for_each_field(Message<TensorShapeProto>(field.get_message()), [&](auto& dim) {
        if (dim.tag() != TensorShapeProto::dim) return false;
        shape.push_back(dimension(Message<Dimension>(dim.get_message())));
        return true;
      });
    } else {
      return false;
    }
    return true;
  });
  return fmt::format("{} ({})", dtype_name(type), fmt::join(shape, ", "));
}

std::string value(Message<ValueInfoProto> message) {
  std::string name;
  std::string type = "not a tensor";
  for_each_field(message, [&](auto& field) {
    if (field.tag() == ValueInfoProto::name) {
      name = field.get_string();
    } else if (field.tag() == ValueInfoProto::type) {
      for_each_field(Message<TypeProto>(field.get_message()), [&](auto& kind) {
        if (kind.tag() != TypeProto::tensor_type) return false;
        type = tensor_type(Message<TensorTypeProto>(kind.get_message()));
        return true;
      });
    } else {
      return false;
    }
    return true;
  });
  return name + ": " + type;
}

TensorInfo initializer(Message<TensorProto> message) {
  TensorInfo tensor;
  int32_t type = 0;
  for_each_field(message, [&](auto& field) {
    if (field.tag() == TensorProto::name) {
      tensor.name = field.get_string();
    } else if (field.tag() == TensorProto::data_type) {
      type = field.get_int32();
    } else if (field.tag() == TensorProto::dims) {
      if (field.wire_type() == protozero::pbf_wire_type::length_delimited) {
        for (const auto size : field.get_packed_int64()) tensor.shape.push_back(size);
      } else {
        tensor.shape.push_back(field.get_int64());
      }
    } else {
      return false;
    }
    return true;
  });
  tensor.dtype = dtype_name(type);
  tensor.elements = 1;
  for (const auto size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(tensor.elements, size, &tensor.elements)) {
      throw InputError(fmt::format("tensor '{}': invalid size {}", tensor.name, size));
    }
  }
  if (const auto* dtype = type == 0 ? nullptr : find_dtype(&Dtype::onnx, type)) {
    const auto size = static_cast<int64_t>(c10::elementSize(dtype->type));
    if (__builtin_mul_overflow(tensor.elements, size, &tensor.bytes)) {
      throw InputError(fmt::format("tensor '{}': its number of bytes overflows", tensor.name));
    }
  }
  return tensor;
}

void read_graph(Message<GraphProto> message, OnnxContents& contents) {
  for_each_field(message, [&](auto& field) {
    switch (field.tag()) {
      case GraphProto::node:
        for_each_field(Message<NodeProto>(field.get_message()), [&](auto& node) {
          if (node.tag() != NodeProto::op_type) return false;
          ++contents.operators[node.get_string()];
          return true;
        });
        return true;
      case GraphProto::initializer:
        contents.tensors.push_back(initializer(Message<TensorProto>(field.get_message())));
        return true;
      case GraphProto::input:
        contents.inputs.push_back(value(Message<ValueInfoProto>(field.get_message())));
        return true;
      case GraphProto::output:
        contents.outputs.push_back(value(Message<ValueInfoProto>(field.get_message())));
        return true;
    }
    return false;
  });
}

void read_opset(Message<OperatorSetIdProto> message, OnnxContents& contents) {
  std::string domain;
  int64_t version = 0;
  for_each_field(message, [&](auto& field) {
    if (field.tag() == OperatorSetIdProto::domain)
      domain = field.get_string();
    else if (field.tag() == OperatorSetIdProto::version)
      version = field.get_int64();
    else
      return false;
    return true;
  });
  if (domain.empty() || domain == "ai.onnx") contents.opset = version;
}

void read_metadata(Message<StringStringEntryProto> message, OnnxContents& contents) {
  std::string key;
  std::string value;
  for_each_field(message, [&](auto& field) {
    if (field.tag() == StringStringEntryProto::key)
      key = field.get_string();
    else if (field.tag() == StringStringEntryProto::value)
      value = field.get_string();
    else
      return false;
    return true;
  });
  contents.metadata[key] = value;
}

OnnxContents parse(const std::string& bytes) {
  OnnxContents contents;
  bool has_graph = false;
  try {
    for_each_field(Message<ModelProto>(bytes), [&](auto& field) {
      switch (field.tag()) {
        case ModelProto::graph:
          has_graph = true;
          read_graph(Message<GraphProto>(field.get_message()), contents);
          return true;
        case ModelProto::opset_import:
          read_opset(Message<OperatorSetIdProto>(field.get_message()), contents);
          return true;
        case ModelProto::metadata_props:
          read_metadata(Message<StringStringEntryProto>(field.get_message()), contents);
          return true;
      }
      return false;
    });
  } catch (const protozero::exception& error) {
    throw InputError(fmt::format("not an ONNX file, or damaged: {}", error.what()));
  }
  if (!has_graph) throw InputError("not an ONNX file: it has no graph");
  return contents;
}

}  // namespace

OnnxContents onnx_contents(const std::filesystem::path& path) {
  const auto bytes = read_bytes(path);
  return with_source(path.string(), [&] { return parse(bytes); });
}

}  // namespace attend
