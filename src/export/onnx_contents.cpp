#include "attend/export/onnx_contents.h"

#include "attend/input_error.h"
#include "export/onnx/proto_fields.h"
#include "io/dtypes.h"
#include "io/files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <protozero/pbf_message.hpp>

#include <charconv>

namespace attend {

namespace fs = std::filesystem;

namespace {

template <typename Tag>
using Message = protozero::pbf_message<Tag>;

/// Returns the last string field `tag` of a message; empty if there is none.
template <typename Tag>
std::string text_of(Message<Tag> message, Tag tag) {
  std::string text;
  while (message.next(tag)) text = message.get_string();
  return text;
}

std::string dtype_name(int32_t type) {
  const auto* dtype = type == 0 ? nullptr : find_dtype(&Dtype::onnx, type);
  return dtype == nullptr ? fmt::format("ONNX type {}", type)
                          : std::string(c10::getDtypeNames(dtype->type).first);
}

/// Returns the size or the name of a dimension, whichever the file contains.
std::string dimension(Message<DimensionProto> message) {
  std::string text = "?";
  while (message.next()) {
    if (message.tag() == DimensionProto::dim_value)
      text = fmt::format("{}", message.get_int64());
    else if (message.tag() == DimensionProto::dim_param)
      text = message.get_string();
    else
      message.skip();
  }
  return text;
}

std::string tensor_type(Message<TensorTypeProto> message) {
  int32_t type = 0;
  std::vector<std::string> shape;
  while (message.next()) {
    if (message.tag() == TensorTypeProto::elem_type) {
      type = message.get_int32();
    } else if (message.tag() == TensorTypeProto::shape) {
      Message<TensorShapeProto> dimensions(message.get_message());
      while (dimensions.next(TensorShapeProto::dim))
        shape.push_back(dimension(Message<DimensionProto>(dimensions.get_message())));
    } else {
      message.skip();
    }
  }
  return fmt::format("{} ({})", dtype_name(type), fmt::join(shape, ", "));
}

std::string value(Message<ValueInfoProto> message) {
  const auto name = text_of(message, ValueInfoProto::name);
  std::string type = "not a tensor";
  while (message.next(ValueInfoProto::type)) {
    Message<TypeProto> kind(message.get_message());
    while (kind.next(TypeProto::tensor_type))
      type = tensor_type(Message<TensorTypeProto>(kind.get_message()));
  }
  return name + ": " + type;
}

/// Returns a number of external data; `missing` if the file does not contain it.
int64_t external_number(const std::map<std::string, std::string>& entries, const char* key,
                        int64_t missing) {
  const auto found = entries.find(key);
  if (found == entries.end()) return missing;
  const auto& text = found->second;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) {
    throw InputError(fmt::format("expected a number of bytes as {}, found '{}'", key, text));
  }
  return number;
}

/// Checks that the data of a tensor of `bytes` bytes (0 if unknown) are in a file in `folder`.
void check_external(const std::map<std::string, std::string>& entries, int64_t bytes,
                    const fs::path& folder) {
  const auto found = entries.find("location");
  const fs::path location = found == entries.end() ? "" : found->second;
  std::error_code ignored;
  const auto file = fs::weakly_canonical(folder / location, ignored);
  const auto relative = file.lexically_relative(fs::weakly_canonical(folder, ignored));
  // A link may lead out of the folder, too.
  if (location.empty() || location.is_absolute() ||
      location.string().find('\0') != std::string::npos || relative.empty() ||
      *relative.begin() == "..") {
    throw InputError(fmt::format(
        "expected the name of a file in the folder of the ONNX file as location, found '{}'",
        location.string()));
  }
  if (!fs::is_regular_file(file, ignored)) {
    throw InputError(
        fmt::format("its data are in the file '{}', which does not exist", location.string()));
  }
  const auto size = static_cast<int64_t>(fs::file_size(file, ignored));
  const auto offset = external_number(entries, "offset", 0);
  const auto length = external_number(entries, "length", bytes);
  if (offset > size || length > size - offset || (bytes > 0 && length != bytes)) {
    throw InputError(
        fmt::format("expected {} bytes at offset {} of '{}' ({} bytes), found length {}", bytes,
                    offset, location.string(), size, length));
  }
}

/// `folder`: of the ONNX file. Adds the name of a second file that contains the data to `files`.
TensorInfo initializer(Message<TensorProto> message, const fs::path& folder,
                       std::set<std::string>& files) {
  TensorInfo tensor{.name = text_of(message, TensorProto::name)};
  int32_t type = 0;
  bool is_external = false;
  std::map<std::string, std::string> external;
  while (message.next()) {
    if (message.tag() == TensorProto::data_type) {
      type = message.get_int32();
    } else if (message.tag() == TensorProto::data_location) {
      is_external = message.get_enum() == 1;
    } else if (message.tag() == TensorProto::external_data) {
      const Message<StringStringEntryProto> entry(message.get_message());
      external[text_of(entry, StringStringEntryProto::key)] =
          text_of(entry, StringStringEntryProto::value);
    } else if (message.tag() != TensorProto::dims) {
      message.skip();
    } else if (message.wire_type() == protozero::pbf_wire_type::length_delimited) {
      for (const auto size : message.get_packed_int64()) tensor.shape.push_back(size);
    } else {
      tensor.shape.push_back(message.get_int64());
    }
  }
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
  if (is_external) {
    with_source(fmt::format("tensor '{}'", tensor.name),
                [&] { check_external(external, tensor.bytes, folder); });
    files.insert(external.at("location"));
  }
  return tensor;
}

void read_graph(Message<GraphProto> graph, const fs::path& folder, OnnxContents& contents) {
  while (graph.next()) {
    switch (graph.tag()) {
      case GraphProto::node:
        ++contents.operators[text_of(Message<NodeProto>(graph.get_message()), NodeProto::op_type)];
        break;
      case GraphProto::initializer:
        contents.tensors.push_back(
            initializer(Message<TensorProto>(graph.get_message()), folder, contents.external_data));
        break;
      case GraphProto::input:
        contents.inputs.push_back(value(Message<ValueInfoProto>(graph.get_message())));
        break;
      case GraphProto::output:
        contents.outputs.push_back(value(Message<ValueInfoProto>(graph.get_message())));
        break;
      default:
        graph.skip();
    }
  }
}

void read_opset(Message<OperatorSetIdProto> message, OnnxContents& contents) {
  const auto domain = text_of(message, OperatorSetIdProto::domain);
  if (!domain.empty() && domain != "ai.onnx") return;
  contents.opset = 0;
  while (message.next(OperatorSetIdProto::version)) contents.opset = message.get_int64();
}

OnnxContents parse(const std::string& bytes, const fs::path& folder) {
  OnnxContents contents;
  bool has_graph = false;
  try {
    Message<ModelProto> model(bytes);
    while (model.next()) {
      if (model.tag() == ModelProto::graph) {
        has_graph = true;
        read_graph(Message<GraphProto>(model.get_message()), folder, contents);
      } else if (model.tag() == ModelProto::opset_import) {
        read_opset(Message<OperatorSetIdProto>(model.get_message()), contents);
      } else if (model.tag() == ModelProto::metadata_props) {
        const Message<StringStringEntryProto> entry(model.get_message());
        contents.metadata[text_of(entry, StringStringEntryProto::key)] =
            text_of(entry, StringStringEntryProto::value);
      } else {
        model.skip();
      }
    }
  } catch (const protozero::exception& error) {
    throw InputError(fmt::format("not an ONNX file, or damaged: {}", error.what()));
  }
  if (!has_graph) throw InputError("not an ONNX file: it has no graph");
  return contents;
}

}  // namespace

OnnxContents onnx_contents(const std::filesystem::path& path) {
  const auto bytes = read_bytes(path);
  return with_source(path.string(), [&] { return parse(bytes, fs::absolute(path).parent_path()); });
}

}  // namespace attend
