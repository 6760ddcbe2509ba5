#include "export/onnx/serialize.h"

#include "export/onnx/opset.h"
#include "export/onnx/proto_fields.h"
#include "io/dtypes.h"
#include "resolved.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <protozero/pbf_builder.hpp>
// LibTorch is built with this value of ONNX_NAMESPACE, but its headers do not define the macro.
#define ONNX_NAMESPACE onnx_torch
#include <torch/csrc/jit/serialization/export.h>
#undef ONNX_NAMESPACE
#include <torch/version.h>

#include <array>
#include <functional>
#include <ostream>
#include <set>
#include <stdexcept>
#include <utility>

namespace attend::onnx {
namespace {

/// Files of protobuf must be smaller than this.
constexpr std::size_t kMaxBytes = std::size_t{1} << 31;
/// Weights with fewer bytes are in the ModelProto in any case: runtimes read small numbers, such as
/// shapes, when they optimize the graph.
constexpr std::size_t kMinExternalBytes = 1024;
/// Alignment of the weights in the second file, so that runtimes can map it into memory.
constexpr std::size_t kPage = 4096;

template <typename Tag>
using Builder = protozero::pbf_builder<Tag>;

c10::ScalarType dtype_of(Type type) {
  return find_dtype(&Dtype::onnx, static_cast<int32_t>(type))->type;
}

torch::Tensor tensor_of(const Constant& constant) {
  // The tensor is created with float64 or int64 elements, then cast to `constant.type`.
  const bool real = is_floating_point(constant.type);
  auto wide = at::empty({static_cast<int64_t>(constant.numbers.size())},
                        real ? torch::kDouble : torch::kLong);
  for (std::size_t i = 0; i < constant.numbers.size(); ++i) {
    const auto& number = constant.numbers[i];
    if (real) {
      wide.mutable_data_ptr<double>()[i] = number.real;
    } else {
      wide.mutable_data_ptr<int64_t>()[i] =
          number.is_real ? static_cast<int64_t>(number.real) : number.integer;
    }
  }
  return wide.to(dtype_of(constant.type)).view(constant.shape);
}

void add_dtype_and_sizes(Builder<TensorProto>& proto, Type type,
                         const std::vector<int64_t>& sizes) {
  proto.add_int32(TensorProto::data_type, static_cast<int32_t>(type));
  proto.add_packed_int64(TensorProto::dims, sizes.begin(), sizes.end());
}

void add_data(Builder<TensorProto>& proto, const torch::Tensor& tensor) {
  const auto data = contiguous_on_cpu(tensor);
  proto.add_bytes(TensorProto::raw_data, static_cast<const char*>(data.const_data_ptr()),
                  data.nbytes());
}

/// AttributeProto.AttributeType of each type in `Attribute`: INT, FLOAT, STRING, INTS, FLOATS,
/// STRINGS and TENSOR.
constexpr std::array<int32_t, 7> kAttributeTypes{2, 1, 3, 7, 6, 8, 4};
static_assert(kAttributeTypes.size() == std::variant_size_v<Attribute>);

struct AttributeWriter {
  Builder<AttributeProto>& proto;

  void operator()(int64_t number) const { proto.add_int64(AttributeProto::i, number); }
  void operator()(double number) const {
    proto.add_float(AttributeProto::f, static_cast<float>(number));
  }
  void operator()(const std::string& text) const { proto.add_bytes(AttributeProto::s, text); }
  void operator()(const std::vector<int64_t>& numbers) const {
    for (const auto number : numbers) proto.add_int64(AttributeProto::ints, number);
  }
  void operator()(const std::vector<double>& numbers) const {
    for (const auto number : numbers)
      proto.add_float(AttributeProto::floats, static_cast<float>(number));
  }
  void operator()(const std::vector<std::string>& texts) const {
    for (const auto& text : texts) proto.add_bytes(AttributeProto::strings, text);
  }
  void operator()(const Constant& constant) const {
    Builder<TensorProto> tensor(proto, AttributeProto::t);
    add_dtype_and_sizes(tensor, constant.type, constant.shape);
    add_data(tensor, tensor_of(constant));
  }
};

/// Returns the domain of an operator, which is "" for ONNX's own operators, and its name in there.
std::pair<std::string, std::string> domain_and_name(const std::string& op_type) {
  const auto end = op_type.find("::");
  if (end == std::string::npos) return {"", op_type};
  return {op_type.substr(0, end), op_type.substr(end + 2)};
}

/// Writes the nodes, inputs and outputs of a model.
class GraphWriter {
 public:
  GraphWriter(const Model& model, const DimensionNames& dimension_names)
      : model_(model), dimension_names_(dimension_names) {
    for (const auto* infos : {&model.inputs, &model.weights, &model.outputs}) {
      for (const auto& info : *infos) {
        names_[info.value.id] = info.name;
        used_names_.insert(info.name);
      }
    }
  }

  /// Returns the fields of a GraphProto without initializers.
  std::string fields() const {
    std::string bytes;
    Builder<GraphProto> graph(bytes);
    graph.add_string(GraphProto::name, "main_graph");
    for (const auto& node : model_.graph.nodes()) add(node, graph);
    for (const auto& input : model_.inputs) add(input, GraphProto::input, graph);
    for (const auto& output : model_.outputs) add(output, GraphProto::output, graph);
    return bytes;
  }

  /// Adds an input or output.
  void add(const ValueInfo& info, GraphProto tag, Builder<GraphProto>& graph) const {
    // An explicit message, since protozero omits empty submessages: the shape of a 0-dimensional
    // tensor is empty, and a tensor without shape has an unknown number of dimensions.
    std::string shape;
    for (std::size_t i = 0; i < info.meta.sizes.size(); ++i) {
      const auto& size = info.meta.sizes[i];
      Builder<TensorShapeProto> dimensions(shape);
      Builder<DimensionProto> dimension(dimensions, TensorShapeProto::dim);
      if (is_fixed(size)) {
        dimension.add_int64(DimensionProto::dim_value, size.value);
        continue;
      }
      const auto name = dimension_names_.find(size.expression);
      dimension.add_string(DimensionProto::dim_param, name != dimension_names_.end()
                                                          ? name->second
                                                          : fmt::format("{}_size{}", info.name, i));
    }
    Builder<ValueInfoProto> value(graph, tag);
    value.add_string(ValueInfoProto::name, info.name);
    Builder<TypeProto> type(value, ValueInfoProto::type);
    Builder<TensorTypeProto> tensor(type, TypeProto::tensor_type);
    tensor.add_int32(TensorTypeProto::elem_type, static_cast<int32_t>(info.value.type));
    tensor.add_message(TensorTypeProto::shape, shape);
  }

 private:
  void add(const Node& node, Builder<GraphProto>& graph) const {
    Builder<NodeProto> proto(graph, GraphProto::node);
    for (const auto& input : node.inputs) proto.add_string(NodeProto::input, name_of(input));
    for (const auto& output : node.outputs) proto.add_string(NodeProto::output, name_of(output));
    const auto [domain, op_type] = domain_and_name(node.op_type);
    proto.add_string(NodeProto::name, fmt::format("{}_{}", op_type, node.outputs.front().id));
    proto.add_string(NodeProto::op_type, op_type);
    if (!domain.empty()) proto.add_string(NodeProto::domain, domain);
    for (const auto& [name, value] : node.attributes) {
      Builder<AttributeProto> attribute(proto, NodeProto::attribute);
      attribute.add_string(AttributeProto::name, name);
      attribute.add_enum(AttributeProto::type, kAttributeTypes.at(value.index()));
      std::visit(AttributeWriter{attribute}, value);
    }
  }

  /// Returns the name of a value in the file; "" for an omitted optional input.
  std::string name_of(const Value& value) const {
    if (value.id == 0) return "";
    const auto found = names_.find(value.id);
    if (found != names_.end()) return found->second;
    auto name = std::to_string(value.id);
    while (used_names_.count(name) > 0) name += '_';
    return name;
  }

  const Model& model_;
  const DimensionNames& dimension_names_;
  std::map<std::size_t, std::string> names_;  // of inputs, weights and outputs, by Value::id
  std::set<std::string> used_names_;
};

/// Throws std::runtime_error if ONNX's checker, which is part of LibTorch, rejects the model, or if
/// its shape inference finds other types or shapes.
void check(const std::string& model) {
  struct Collector : c10::WarningHandler {
    void process(const c10::Warning& warning) override { text += warning.msg(); }
    std::string text;
  };
  Collector warnings;  // LibTorch only warns about errors of the shape inference
  try {
    const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
    torch::jit::check_onnx_proto(model);
  } catch (const std::exception& error) {
    warnings.text += error.what();
  }
  if (!warnings.text.empty()) {
    throw std::runtime_error(fmt::format("the ONNX graph is invalid: {}", warnings.text));
  }
}

/// Returns the first fields of the ModelProto.
std::string fields_before_graph(const Graph& graph) {
  std::map<std::string, int64_t> opsets{{"", graph.opset()}};
  for (const auto& node : graph.nodes()) opsets.emplace(domain_and_name(node.op_type).first, 1);
  std::string bytes;
  Builder<ModelProto> model(bytes);
  model.add_int64(ModelProto::ir_version, ir_version_of(graph.opset()));
  model.add_string(ModelProto::producer_name, "attend");
  model.add_string(ModelProto::producer_version, "LibTorch " TORCH_VERSION);
  for (const auto& [domain, version] : opsets) {
    Builder<OperatorSetIdProto> opset(model, ModelProto::opset_import);
    opset.add_string(OperatorSetIdProto::domain, domain);
    opset.add_int64(OperatorSetIdProto::version, version);
  }
  return bytes;
}

template <typename Tag>
void add_entry(Builder<Tag>& message, Tag tag, const std::string& key, const std::string& value) {
  Builder<StringStringEntryProto> entry(message, tag);
  entry.add_string(StringStringEntryProto::key, key);
  entry.add_string(StringStringEntryProto::value, value);
}

/// Adds the initializers of a model to the graph.
class InitializerWriter {
 public:
  InitializerWriter(const std::map<std::string, torch::Tensor>& weights, std::string location)
      : weights_(weights), location_(std::move(location)) {}

  /// The data are in the second file if `is_external` is true.
  void add(const ValueInfo& weight, bool is_external, Builder<GraphProto>& graph) {
    const auto& tensor = weights_.at(weight.name);
    Builder<TensorProto> proto(graph, GraphProto::initializer);
    std::vector<int64_t> sizes;
    for (const auto& size : weight.meta.sizes) sizes.push_back(size.value);
    add_dtype_and_sizes(proto, weight.value.type, sizes);
    proto.add_string(TensorProto::name, weight.name);
    if (!is_external) return add_data(proto, tensor);
    const auto offset = (end_ + kPage - 1) / kPage * kPage;
    const auto add_external = [&](const char* key, const std::string& value) {
      add_entry(proto, TensorProto::external_data, key, value);
    };
    add_external("location", location_);
    add_external("offset", std::to_string(offset));
    add_external("length", std::to_string(tensor.nbytes()));
    proto.add_enum(TensorProto::data_location, /*EXTERNAL*/ 1);
    external_.push_back({tensor, offset});
    end_ = offset + tensor.nbytes();
  }

  std::vector<ExternalWeight> external() && { return std::move(external_); }

 private:
  const std::map<std::string, torch::Tensor>& weights_;
  std::string location_;
  std::vector<ExternalWeight> external_;
  std::size_t end_ = 0;  // of the second file
};

}  // namespace

SerializedModel serialize(const Model& model, const std::map<std::string, torch::Tensor>& weights,
                          const DimensionNames& dimension_names,
                          const std::map<std::string, std::string>& metadata,
                          const std::string& location, bool external_data) {
  const GraphWriter writer(model, dimension_names);
  const auto graph_fields = writer.fields();
  auto start = fields_before_graph(model.graph);
  auto without_data = start;
  {
    Builder<ModelProto> proto(without_data);
    Builder<GraphProto> graph(proto, ModelProto::graph);
    without_data += graph_fields;
    for (const auto& weight : model.weights) writer.add(weight, GraphProto::input, graph);
  }
  check(without_data);

  const auto size_with = [&](const std::function<bool(const ValueInfo&)>& is_external) {
    auto bytes = start.size() + graph_fields.size();
    for (const auto& [name, content] : metadata) bytes += name.size() + content.size() + 100;
    for (const auto& weight : model.weights) {
      // 300 bytes are more than its numbers, the tags and the keys of external data need.
      bytes += weight.name.size() + location.size() + 300;
      if (!is_external(weight)) bytes += weights.at(weight.name).nbytes();
    }
    return bytes;
  };
  const bool fits = size_with([](const auto&) { return false; }) < kMaxBytes;
  const auto is_external = [&](const ValueInfo& weight) {
    return (external_data || !fits) && weights.at(weight.name).nbytes() >= kMinExternalBytes;
  };
  const auto bytes = size_with(is_external);
  if (bytes >= kMaxBytes) {
    throw std::runtime_error(fmt::format(
        "the ONNX file without the weights in a second file needs {} bytes, but must be smaller "
        "than {} bytes, the limit of protobuf",
        bytes, kMaxBytes));
  }

  SerializedModel serialized{std::move(start), {}};
  serialized.model.reserve(bytes);
  Builder<ModelProto> proto(serialized.model);
  for (const auto& [name, content] : metadata) {
    add_entry(proto, ModelProto::metadata_props, name, content);
  }
  InitializerWriter initializers(weights, location);
  {
    Builder<GraphProto> graph(proto, ModelProto::graph);
    serialized.model += graph_fields;
    for (const auto& weight : model.weights) initializers.add(weight, is_external(weight), graph);
  }
  serialized.external = std::move(initializers).external();
  return serialized;
}

void write_external(std::ostream& file, const std::vector<ExternalWeight>& weights) {
  std::size_t end = 0;
  for (const auto& [tensor, offset] : weights) {
    file << std::string(offset - end, '\0');
    const auto data = contiguous_on_cpu(tensor);
    file.write(static_cast<const char*>(data.const_data_ptr()),
               static_cast<std::streamsize>(data.nbytes()));
    end = offset + data.nbytes();
  }
}

}  // namespace attend::onnx
