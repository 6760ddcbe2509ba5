#include "support/onnx_file.h"

#include "export/onnx/proto_fields.h"
#include "io/files.h"

#include <protozero/pbf_message.hpp>

namespace attend {
namespace {

template <typename Tag>
using Message = protozero::pbf_message<Tag>;

template <typename Tag>
std::string text_at(protozero::data_view bytes, Tag tag) {
  Message<Tag> message(bytes);
  std::string text;
  while (message.next(tag)) text = message.get_string();
  return text;
}

void read_graph(Message<GraphProto> graph, OnnxFile& file) {
  while (graph.next()) {
    switch (graph.tag()) {
      case GraphProto::node:
        file.operators.push_back(text_at(graph.get_view(), NodeProto::op_type));
        break;
      case GraphProto::initializer:
        file.initializers.push_back(text_at(graph.get_view(), TensorProto::name));
        break;
      case GraphProto::input:
        file.inputs.push_back(text_at(graph.get_view(), ValueInfoProto::name));
        break;
      case GraphProto::output:
        file.outputs.push_back(text_at(graph.get_view(), ValueInfoProto::name));
        break;
      default:
        graph.skip();
    }
  }
}

}  // namespace

OnnxFile read_onnx(const std::filesystem::path& path) {
  const auto bytes = read_bytes(path);
  OnnxFile file;
  Message<ModelProto> model(bytes);
  while (model.next()) {
    if (model.tag() == ModelProto::graph) {
      read_graph(Message<GraphProto>(model.get_message()), file);
    } else if (model.tag() == ModelProto::metadata_props) {
      const auto entry = model.get_view();
      file.metadata[text_at(entry, StringStringEntryProto::key)] =
          text_at(entry, StringStringEntryProto::value);
    } else if (model.tag() == ModelProto::opset_import) {
      const auto bytes_of_opset = model.get_view();
      Message<OperatorSetIdProto> opset(bytes_of_opset);
      const auto domain = text_at(bytes_of_opset, OperatorSetIdProto::domain);
      if (!domain.empty()) {
        file.domains.push_back(domain);
      } else if (opset.next(OperatorSetIdProto::version)) {
        file.opset = opset.get_int64();
      }
    } else {
      model.skip();
    }
  }
  return file;
}

}  // namespace attend
