#include "export/onnx/serialize.h"

#include "export/onnx/opset.h"
#include "export/onnx/proto_fields.h"
#include "io/dtypes.h"
#include "resolved.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <protozero/pbf_builder.hpp>
#include <protozero/pbf_message.hpp>
// LibTorch is built with this value of ONNX_NAMESPACE, but its headers do not define the macro.
#define ONNX_NAMESPACE onnx_torch
#include <torch/csrc/jit/serialization/export.h>
#undef ONNX_NAMESPACE
#include <torch/version.h>

#include <functional>
#include <ostream>
#include <set>
#include <stdexcept>
#include <utility>

namespace attend::onnx {
namespace {

namespace jit = torch::jit;

/// Opset for LibTorch, which does not know newer ones. The nodes are those of `Graph::opset`, and
/// this file writes its number.
constexpr int64_t kOpset = 18;

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

struct SetAttribute {
  jit::Node& node;
  jit::Symbol name;

  void operator()(int64_t number) const { node.i_(name, number); }
  void operator()(double number) const { node.f_(name, number); }
  void operator()(const std::string& text) const { node.s_(name, text); }
  void operator()(const std::vector<int64_t>& numbers) const { node.is_(name, numbers); }
  void operator()(const std::vector<double>& numbers) const { node.fs_(name, numbers); }
  void operator()(const std::vector<std::string>& texts) const { node.ss_(name, texts); }
  void operator()(const Constant& constant) const { node.t_(name, tensor_of(constant)); }
};

using DynamicAxes = std::unordered_map<std::string, std::unordered_map<int64_t, std::string>>;

class ToJit {
 public:
  explicit ToJit(const DimensionNames& dimension_names) : dimension_names_(dimension_names) {}

  std::shared_ptr<jit::Graph> convert(const Model& model) {
    for (const auto& input : model.inputs) set_type(*graph_->addInput(input.name), input);
    for (const auto& weight : model.weights) set_type(*graph_->addInput(weight.name), weight);
    for (const auto& node : model.graph.nodes()) add(node);
    for (const auto& output : model.outputs) {
      auto* value = values_.at(output.value.id);
      value->setDebugName(output.name);
      set_type(*value, output);
      graph_->registerOutput(value);
    }
    return graph_;
  }

  const DynamicAxes& dynamic_axes() const { return dynamic_axes_; }

 private:
  /// Sets the dtype and shape of `value`, and adds the dynamic dimensions of `value` to
  /// `dynamic_axes_`.
  void set_type(jit::Value& value, const ValueInfo& info) {
    values_[info.value.id] = &value;
    std::vector<c10::ShapeSymbol> shape;
    for (std::size_t i = 0; i < info.meta.sizes.size(); ++i) {
      const auto& size = info.meta.sizes[i];
      if (is_fixed(size)) {
        shape.push_back(c10::ShapeSymbol::fromStaticSize(size.value));
        continue;
      }
      shape.push_back(c10::ShapeSymbol::newSymbol());
      const auto name = dimension_names_.find(size.expression);
      dynamic_axes_[info.name][static_cast<int64_t>(i)] =
          name != dimension_names_.end() ? name->second : fmt::format("{}_size{}", info.name, i);
    }
    value.setType(c10::TensorType::create(dtype_of(info.value.type), torch::Device(torch::kCPU),
                                          c10::SymbolicShape(shape),
                                          c10::VaryingShape<c10::Stride>(),
                                          /*requires_grad=*/false));
  }

  void add(const Node& node) {
    const bool has_domain = node.op_type.find("::") != std::string::npos;
    const auto kind =
        jit::Symbol::fromQualString(has_domain ? node.op_type : "onnx::" + node.op_type);
    auto* made = graph_->create(kind, node.outputs.size());
    for (const auto& input : node.inputs) {
      made->addInput(input.id == 0 ? none() : values_.at(input.id));
    }
    for (const auto& [name, attribute] : node.attributes) {
      std::visit(SetAttribute{*made, jit::Symbol::attr(name)}, attribute);
    }
    graph_->appendNode(made);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      values_[node.outputs[i].id] = made->output(i);
    }
  }

  jit::Value* none() {
    if (none_ == nullptr) none_ = graph_->insertNode(graph_->createNone())->output();
    return none_;
  }

  const DimensionNames& dimension_names_;
  std::shared_ptr<jit::Graph> graph_ = std::make_shared<jit::Graph>();
  std::unordered_map<std::size_t, jit::Value*> values_;  // by Value::id
  jit::Value* none_ = nullptr;
  DynamicAxes dynamic_axes_;
};

/// Returns the ModelProto that LibTorch writes for the graph, of which only the graph is used. The
/// weights are inputs after the other inputs, so that LibTorch does not copy them.
std::string without_weights(const Model& model, const DimensionNames& dimension_names) {
  ToJit conversion(dimension_names);
  const auto graph = conversion.convert(model);
  const auto exported = jit::export_onnx(
      graph, /*initializers=*/{}, kOpset, conversion.dynamic_axes(), /*defer_weight_export=*/false,
      torch::onnx::OperatorExportTypes::ONNX, /*strip_doc_string=*/true,
      /*keep_initializers_as_inputs=*/false, /*custom_opsets=*/{}, /*add_node_names=*/true);
  return jit::serialize_model_proto_to_string(std::get<0>(exported));
}

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
    jit::check_onnx_proto(model);
  } catch (const std::exception& error) {
    warnings.text += error.what();
  }
  if (!warnings.text.empty()) {
    throw std::runtime_error(fmt::format("the ONNX graph is invalid: {}", warnings.text));
  }
}

void add_opset(Builder<ModelProto>& model, const std::string& domain, int64_t version) {
  Builder<OperatorSetIdProto> opset(model, ModelProto::opset_import);
  opset.add_string(OperatorSetIdProto::domain, domain);
  opset.add_int64(OperatorSetIdProto::version, version);
}

/// Returns the domains of the operators that are not ONNX's own.
std::set<std::string> domains_of(const Graph& graph) {
  std::set<std::string> domains;
  for (const auto& node : graph.nodes()) {
    const auto end = node.op_type.find("::");
    if (end != std::string::npos) domains.insert(node.op_type.substr(0, end));
  }
  return domains;
}

/// Returns the first fields of the ModelProto.
std::string fields_before_graph(const Graph& graph) {
  std::string bytes;
  Builder<ModelProto> model(bytes);
  model.add_int64(ModelProto::ir_version, ir_version_of(graph.opset()));
  model.add_string(ModelProto::producer_name, "attend");
  model.add_string(ModelProto::producer_version, "LibTorch " TORCH_VERSION);
  add_opset(model, "", graph.opset());
  for (const auto& domain : domains_of(graph)) add_opset(model, domain, 1);
  return bytes;
}

/// Appends the fields of a graph to `bytes`, except the inputs from index `num_inputs` on.
void append_graph(protozero::pbf_message<GraphProto> graph, std::size_t num_inputs,
                  std::string& bytes) {
  std::size_t inputs = 0;
  for (auto rest = graph.data(); graph.next(); rest = graph.data()) {
    const bool is_input = graph.tag() == GraphProto::input;
    graph.skip();
    if (is_input && ++inputs > num_inputs) continue;
    bytes.append(rest.data(), rest.size() - graph.data().size());
  }
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
    proto.add_packed_int64(TensorProto::dims, sizes.begin(), sizes.end());
    proto.add_int32(TensorProto::data_type, static_cast<int32_t>(weight.value.type));
    proto.add_string(TensorProto::name, weight.name);
    if (!is_external) {
      const auto data = contiguous_on_cpu(tensor);
      proto.add_bytes(TensorProto::raw_data, static_cast<const char*>(data.const_data_ptr()),
                      data.nbytes());
      return;
    }
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
  const auto from_libtorch = without_weights(model, dimension_names);
  protozero::pbf_message<ModelProto> graph_field(from_libtorch);
  graph_field.next(ModelProto::graph);
  const auto graph_only = graph_field.get_view();

  auto start = fields_before_graph(model.graph);
  auto without_data = start;
  Builder<ModelProto>(without_data).add_message(ModelProto::graph, graph_only);
  check(without_data);

  const auto size_with = [&](const std::function<bool(const ValueInfo&)>& is_external) {
    auto bytes = start.size() + graph_only.size();
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
    append_graph(protozero::pbf_message<GraphProto>(graph_only), model.inputs.size(),
                 serialized.model);
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
