#include "support/onnx_file.h"

#include "io/files.h"

#include <protozero/pbf_reader.hpp>

namespace attend {
namespace {

// Field numbers of onnx.proto.
constexpr protozero::pbf_tag_type kModelGraph = 7;
constexpr protozero::pbf_tag_type kModelOpset = 8;
constexpr protozero::pbf_tag_type kModelMetadata = 14;
constexpr protozero::pbf_tag_type kGraphNode = 1;
constexpr protozero::pbf_tag_type kGraphInitializer = 5;
constexpr protozero::pbf_tag_type kGraphInput = 11;
constexpr protozero::pbf_tag_type kGraphOutput = 12;
constexpr protozero::pbf_tag_type kNodeOperator = 4;
constexpr protozero::pbf_tag_type kTensorName = 8;
constexpr protozero::pbf_tag_type kValueName = 1;
constexpr protozero::pbf_tag_type kOpsetDomain = 1;
constexpr protozero::pbf_tag_type kOpsetVersion = 2;

std::string text_at(protozero::pbf_reader message, protozero::pbf_tag_type tag) {
  std::string text;
  while (message.next()) {
    if (message.tag() == tag) {
      text = message.get_string();
    } else {
      message.skip();
    }
  }
  return text;
}

void read_graph(protozero::pbf_reader graph, OnnxFile& file) {
  while (graph.next()) {
    switch (graph.tag()) {
      case kGraphNode:
        file.operators.push_back(text_at(graph.get_message(), kNodeOperator));
        break;
      case kGraphInitializer:
        file.initializers.push_back(text_at(graph.get_message(), kTensorName));
        break;
      case kGraphInput:
        file.inputs.push_back(text_at(graph.get_message(), kValueName));
        break;
      case kGraphOutput:
        file.outputs.push_back(text_at(graph.get_message(), kValueName));
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
  protozero::pbf_reader model(bytes);
  while (model.next()) {
    if (model.tag() == kModelGraph) {
      read_graph(model.get_message(), file);
    } else if (model.tag() == kModelMetadata) {
      const auto entry = model.get_message();
      file.metadata[text_at(entry, 1)] = text_at(entry, 2);
    } else if (model.tag() == kModelOpset) {
      auto opset = model.get_message();
      const auto domain = text_at(opset, kOpsetDomain);
      if (!domain.empty()) {
        file.domains.push_back(domain);
      } else if (opset.next(kOpsetVersion)) {
        file.opset = opset.get_int64();
      }
    } else {
      model.skip();
    }
  }
  return file;
}

}  // namespace attend
