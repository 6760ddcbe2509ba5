#include "export/onnx/serialize.h"

#include "io/dtypes.h"
#include "resolved.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>
#include <fmt/format.h>
#include <protozero/pbf_builder.hpp>
// LibTorch is built with this value of ONNX_NAMESPACE, but its headers do not define the macro.
#define ONNX_NAMESPACE onnx_torch
#include <torch/csrc/jit/serialization/export.h>
#undef ONNX_NAMESPACE
#include <torch/version.h>

namespace attend::onnx {
namespace {

namespace jit = torch::jit;

constexpr int64_t kOpset = 18;

// Field numbers from onnx.proto. Each enum has the name of a message in onnx.proto and contains the
// fields that `extra_fields` writes.
enum class ModelProto : protozero::pbf_tag_type {
  string_producer_name = 2,
  string_producer_version = 3,
  message_metadata_props = 14,
};
enum class StringStringEntryProto : protozero::pbf_tag_type { string_key = 1, string_value = 2 };

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

/// Returns serialized fields of ModelProto, to be appended to the bytes that LibTorch writes.
/// Protobuf merges concatenated messages, so the producer name and version override those that
/// LibTorch writes.
std::string extra_fields(const std::map<std::string, std::string>& metadata) {
  std::string bytes;
  protozero::pbf_builder<ModelProto> model(bytes);
  model.add_string(ModelProto::string_producer_name, "attend");
  model.add_string(ModelProto::string_producer_version, "LibTorch " TORCH_VERSION);
  for (const auto& [key, value] : metadata) {
    protozero::pbf_builder<StringStringEntryProto> entry(model, ModelProto::message_metadata_props);
    entry.add_string(StringStringEntryProto::string_key, key);
    entry.add_string(StringStringEntryProto::string_value, value);
  }
  return bytes;
}

}  // namespace

std::string serialize(const Model& model, const std::map<std::string, torch::Tensor>& weights,
                      const DimensionNames& dimension_names,
                      const std::map<std::string, std::string>& metadata) {
  std::map<std::string, torch::Tensor> initializers;
  for (const auto& weight : model.weights) {
    const auto tensor = contiguous_on_cpu(weights.at(weight.name));
    // The value of a complex tensor is real; see `is_complex`.
    initializers.emplace(weight.name, tensor.is_complex() ? at::view_as_real(tensor) : tensor);
  }
  ToJit conversion(dimension_names);
  const auto graph = conversion.convert(model);
  const auto exported = jit::export_onnx(
      graph, initializers, kOpset, conversion.dynamic_axes(), /*defer_weight_export=*/false,
      torch::onnx::OperatorExportTypes::ONNX, /*strip_doc_string=*/true,
      /*keep_initializers_as_inputs=*/false, /*custom_opsets=*/{}, /*add_node_names=*/true);
  return jit::serialize_model_proto_to_string(std::get<0>(exported)) + extra_fields(metadata);
}

}  // namespace attend::onnx
