#include "export/trace.h"

#include "export/bool_scalars.h"
#include "export/numbered_names.h"

#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>

#include <cctype>
#include <set>
#include <stdexcept>

namespace attend {
namespace {

namespace jit = torch::jit;

jit::Module mirror(const torch::nn::Module& module, const std::string& name,
                   const std::shared_ptr<jit::CompilationUnit>& unit) {
  jit::Module mirrored(c10::QualifiedName(name), unit);
  mirrored.register_attribute("training", c10::BoolType::get(), /*v=*/false);
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    mirrored.register_parameter(item.key(), item.value(), /*is_buffer=*/false);
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    mirrored.register_buffer(item.key(), item.value());
  }
  for (const auto& item : module.named_children()) {
    // A type's name may not begin with a digit, as those of a ModuleList's children would, and
    // must differ from those of other types.
    const bool is_number = std::isdigit(static_cast<unsigned char>(item.key().front())) != 0;
    auto type = name + (is_number ? "._" : ".") + item.key();
    while (unit->get_type(c10::QualifiedName(type)) != nullptr) type += "_";
    const auto child = mirror(*item.value(), type, unit);
    mirrored.register_module(item.key(), child);
  }
  return mirrored;
}

/// In eval mode dropout returns what it gets, and yet it is recorded.
void remove_dropout(jit::Graph& graph) {
  const std::set<std::string> names{"aten::dropout",
                                    "aten::dropout_",
                                    "aten::alpha_dropout",
                                    "aten::alpha_dropout_",
                                    "aten::feature_dropout",
                                    "aten::feature_dropout_",
                                    "aten::feature_alpha_dropout",
                                    "aten::feature_alpha_dropout_"};
  for (auto node = graph.nodes().begin(); node != graph.nodes().end(); ++node) {
    if (names.count(node->kind().toQualString()) == 0) continue;
    const auto is_training = jit::constant_as<bool>(node->input(2));
    if (is_training.value_or(true)) continue;
    node->output()->replaceAllUsesWith(node->input(0));
    node.destroyCurrent();
  }
}

}  // namespace

bool is_call(const jit::Node& node) {
  switch (node.kind()) {
    case c10::prim::Constant:
    case c10::prim::GetAttr:
    case c10::prim::ListConstruct:
    case c10::prim::ListUnpack:
    case c10::prim::TupleConstruct:
      return false;
    default:
      return true;
  }
}

jit::Module mirror(const torch::nn::Module& module) {
  return mirror(module, "__torch__.attend.Exported", std::make_shared<jit::CompilationUnit>());
}

void add_traced_method(jit::Module& scripted, const std::string& name, const Forward& function,
                       const std::vector<torch::Tensor>& inputs,
                       const std::vector<std::string>& input_names) {
  std::set<const at::TensorImpl*> owned;
  for (const auto& tensor : scripted.parameters()) owned.insert(tensor.unsafeGetTensorImpl());
  for (const auto& tensor : scripted.buffers()) owned.insert(tensor.unsafeGetTensorImpl());
  const auto traced_function = [&](const jit::Stack& stack) -> jit::Stack {
    std::vector<torch::Tensor> tensors;
    for (const auto& value : stack) tensors.push_back(value.toTensor());
    auto outputs = function(tensors).tensors;
    replace_bool_scalars(*jit::tracer::getTracingState()->graph);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].defined()) continue;
      throw std::runtime_error(fmt::format("output {} of {} is an undefined tensor", i, name));
    }
    // A graph cannot end in what belongs to the module.
    for (auto& output : outputs) {
      if (owned.count(output.unsafeGetTensorImpl()) > 0) output = at::alias(output);
    }
    if (outputs.size() == 1) return {outputs.front()};
    return {c10::ivalue::Tuple::create({outputs.begin(), outputs.end()})};
  };
  // A forward may change its inputs: they are the caller's.
  std::vector<torch::Tensor> own;
  for (const auto& input : inputs) own.push_back(input.clone());
  const auto no_variable_names = [](const torch::Tensor&) { return std::string(); };
  const auto trace = [&] {
    return jit::tracer::trace(jit::Stack(own.begin(), own.end()), traced_function,
                              no_variable_names, /*strict=*/true, /*force_outplace=*/false,
                              &scripted, numbered_names(input_names, inputs.size(), "input"));
  };
  std::shared_ptr<jit::tracer::TracingState> state;
  try {
    state = trace().first;
  } catch (const c10::Error& error) {
    const std::string_view what = error.what_without_backtrace();
    if (what.find("Tensor that requires grad as a constant") == std::string_view::npos) throw;
    throw std::runtime_error(fmt::format(
        "{} uses a tensor that requires a gradient and is no parameter of the module: register it "
        "as one",
        name));
  }
  remove_dropout(*state->graph);
  const auto type = scripted.type();
  auto* method = type->compilation_unit()->create_function(c10::QualifiedName(*type->name(), name),
                                                           state->graph);
  type->addMethod(method);
}

}  // namespace attend
