#include "export/trace.h"

#include "export/numbered_names.h"
#include "export/resize.h"
#include "export/schedule.h"
#include "export/shape_text.h"
#include "export/specialized_dimension.h"
#include "export/thread_callback.h"

#include <ATen/ScalarOps.h>
#include <ATen/TracerMode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>

namespace attend {
namespace {

namespace jit = torch::jit;

/// Returns the name of a submodule as an identifier. Adds "_" in front of a name that begins with a
/// digit, such as the name of a child of a ModuleList.
std::string type_name_of(std::string name) {
  for (auto& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return (std::isdigit(static_cast<unsigned char>(name.front())) != 0 ? "_" : "") + name;
}

jit::Module to_script_module(const torch::nn::Module& module, const std::string& name,
                             const std::shared_ptr<jit::CompilationUnit>& unit) {
  jit::Module scripted(c10::QualifiedName(name), unit);
  // TorchScript files need the attribute `training`. The attribute is omitted if a tensor or
  // submodule already has this name. Exports to ONNX allow this name, since ONNX files do not need
  // the attribute.
  const auto is_training = [](const auto& item) { return item.key() == "training"; };
  const auto parameters = module.named_parameters(/*recurse=*/false);
  const auto buffers = module.named_buffers(/*recurse=*/false);
  const auto children = module.named_children();
  if (std::none_of(parameters.begin(), parameters.end(), is_training) &&
      std::none_of(buffers.begin(), buffers.end(), is_training) &&
      std::none_of(children.begin(), children.end(), is_training)) {
    scripted.register_attribute("training", c10::BoolType::get(), /*v=*/false);
  }
  for (const auto& item : parameters) {
    scripted.register_parameter(item.key(), item.value(), /*is_buffer=*/false);
  }
  for (const auto& item : buffers) {
    scripted.register_buffer(item.key(), item.value());
  }
  for (const auto& item : children) {
    auto type = name + "." + type_name_of(item.key());
    while (unit->get_type(c10::QualifiedName(type)) != nullptr) type += "_";
    const auto child = to_script_module(*item.value(), type, unit);
    scripted.register_module(item.key(), child);
  }
  return scripted;
}

/// Returns true for operators that cast their Scalar argument to the output's dtype, so that an int
/// has the same effect as a bool. In other operators, such as aten::add, the type of the Scalar
/// affects type promotion.
bool only_fills(const jit::Node& node) {
  static const std::set<std::string_view> names{
      "aten::constant_pad_nd", "aten::fill",       "aten::fill_",       "aten::full",
      "aten::full_like",       "aten::index_fill", "aten::index_fill_", "aten::masked_fill",
      "aten::masked_fill_",    "aten::new_full",   "aten::scatter",     "aten::scatter_"};
  return names.count(node.kind().toQualString()) > 0;
}

std::optional<bool> flag_of(const jit::Value* value) {
  const auto constant = jit::toIValue(value);
  if (!constant || !constant->isBool()) return std::nullopt;
  return constant->toBool();
}

/// Replaces the bool inputs of `node` at `positions` by ints if `as_number` is set, else by
/// 0-dimensional tensors. Returns false and leaves the node unchanged if no operator overload
/// accepts the new inputs.
bool try_replace(jit::Graph& graph, jit::Node& node, const std::vector<std::size_t>& positions,
                 bool as_number) {
  const jit::WithInsertPoint before(&node);
  std::vector<jit::Value*> originals;
  for (const auto i : positions) {
    originals.push_back(node.input(i));
    const auto flag = *flag_of(node.input(i));
    node.replaceInput(i, as_number ? graph.insertConstant(static_cast<int64_t>(flag))
                                   : graph.insertConstant(c10::scalar_to_tensor(flag)));
  }
  if (node.maybeOperator() != nullptr) return true;
  for (std::size_t i = 0; i < positions.size(); ++i) node.replaceInput(positions[i], originals[i]);
  return false;
}

void replace_bool_scalars(jit::Graph& graph, jit::Node& node) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    if (flag_of(node.input(i))) all.push_back(i);
  }
  // Some of the bool inputs may be arguments for bool parameters, such as keepdim. These inputs
  // must stay bools. So the loop below first tries to replace each bool input alone, then all bool
  // inputs together.
  std::vector<std::vector<std::size_t>> choices;
  for (const auto i : all) choices.push_back({i});
  choices.push_back(all);
  const bool number_first = only_fills(node);
  for (const bool as_number : {number_first, !number_first}) {
    for (const auto& positions : choices) {
      if (try_replace(graph, node, positions, as_number)) return;
    }
  }
}

/// Sets the dtype argument of aten::full to bool if the fill value is a bool and the dtype is None.
/// `replace_bool_scalars` then replaces the bool value by an int. Without an explicit dtype, the
/// int would change the output's dtype.
void keep_type_of_full(jit::Graph& graph, jit::Node& node) {
  constexpr std::size_t kValue = 1;
  constexpr std::size_t kDtype = 2;
  if (node.kind() != c10::aten::full || !flag_of(node.input(kValue))) return;
  if (!node.input(kDtype)->mustBeNone()) return;
  const jit::WithInsertPoint before(&node);
  node.replaceInput(kDtype, graph.insertConstant(static_cast<int64_t>(at::kBool)));
}

/// Replaces each bool constant that is passed as a Scalar argument, such as `true` in
/// `mask.fill_(true)`, by an equivalent int or 0-dimensional tensor. LibTorch's tracer records
/// these arguments as bools, but TorchScript has no operator overloads for a bool Scalar.
void replace_bool_scalars(jit::Graph& graph) {
  for (auto* node : graph.nodes()) {
    if (!node->kind().is_aten() || node->maybeOperator() != nullptr) continue;
    keep_type_of_full(graph, *node);
    replace_bool_scalars(graph, *node);
  }
}

/// Throws std::runtime_error if an operator draws random numbers from a generator other than
/// LibTorch's default generator. The file would contain a copy of the generator, or no generator.
void check_generators(const jit::Graph& graph, const std::string& name) {
  for (const auto& value : graph_constants(graph)) {
    if (!value.isGenerator()) continue;
    throw std::runtime_error(fmt::format(
        "{} draws random numbers from a generator other than LibTorch's default generator, but "
        "exported files cannot contain generators; use the default generator",
        name));
  }
}

/// A running operator call in a trace.
struct CallInTrace : at::ObserverContext {
  const jit::Node* last_node_before = nullptr;
};

jit::Node* newest_node() {
  return jit::tracer::getTracingState()->graph->block()->return_node()->prev();
}

/// Copies the constants that the operator added to the trace, if their storages do not own their
/// memory. They are copied after each operator, since `forward` may free the memory of
/// torch::from_blob before it returns.
void copy_foreign_constants(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  for (auto* node : nodes_of_call(context)) {
    if (node->kind() != c10::prim::Constant || !node->hasAttribute(jit::attr::value) ||
        node->kindOf(jit::attr::value) != jit::AttributeKind::t) {
      continue;
    }
    const auto& constant = node->t(jit::attr::value);
    // The storage of torch::from_blob has no allocator. It may have a deleter that frees nothing.
    if (!constant.has_storage() || constant.storage().allocator() != nullptr) continue;
    const at::tracer::impl::NoTracerDispatchMode not_traced;
    node->t_(jit::attr::value, constant.clone());
  }
}

/// Removes the dropout operators whose argument `train` is false. The tracer records these
/// operators, although they return their input.
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

std::unique_ptr<at::ObserverContext> start_call(const at::RecordFunction& /*function*/) {
  if (!jit::tracer::isTracing()) return nullptr;
  auto call = std::make_unique<CallInTrace>();
  call->last_node_before = newest_node();
  return call;
}

std::vector<jit::Node*> nodes_of_call(at::ObserverContext* context) {
  if (context == nullptr || !jit::tracer::isTracing()) return {};
  std::vector<jit::Node*> nodes;
  const auto* end = static_cast<CallInTrace*>(context)->last_node_before;
  for (auto* node = newest_node(); node != end; node = node->prev()) nodes.push_back(node);
  return nodes;
}

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

jit::Module to_script_module(const torch::nn::Module& module) {
  return to_script_module(module, "__torch__.attend.Exported",
                          std::make_shared<jit::CompilationUnit>());
}

std::vector<c10::IValue> graph_constants(const jit::Graph& graph) {
  std::vector<c10::IValue> constants;
  for (const auto* node : graph.nodes()) {
    if (node->kind() != c10::prim::Constant) continue;
    if (const auto value = jit::toIValue(node->output())) constants.push_back(*value);
  }
  return constants;
}

std::set<int64_t> integer_constants(const jit::Graph& graph) {
  std::set<int64_t> constants;
  const auto add = [&](int64_t number) {
    if (number > -kMaxScheduledSize && number < kMaxScheduledSize)
      constants.insert(std::abs(number));
  };
  for (const auto& value : graph_constants(graph)) {
    if (value.isInt()) add(value.toInt());
    if (!value.isIntList()) continue;
    for (const auto number : value.toIntVector()) add(number);
  }
  return constants;
}

TreeSpec add_traced_method(jit::Module& scripted, const std::string& name, const Forward& function,
                           const std::vector<torch::Tensor>& inputs,
                           const std::vector<std::string>& input_names) {
  TreeSpec spec;
  std::set<const at::TensorImpl*> owned;
  for (const auto& tensor : scripted.parameters()) owned.insert(tensor.unsafeGetTensorImpl());
  for (const auto& tensor : scripted.buffers()) owned.insert(tensor.unsafeGetTensorImpl());
  const auto traced_function = [&](const jit::Stack& stack) -> jit::Stack {
    std::vector<torch::Tensor> tensors;
    for (const auto& value : stack) tensors.push_back(value.toTensor());
    auto [outputs, structure] = function(tensors);
    spec = std::move(structure);
    replace_bool_scalars(*jit::tracer::getTracingState()->graph);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].defined()) continue;
      throw std::runtime_error(
          fmt::format("output {} of {} must be a defined tensor, found an undefined one", i, name));
    }
    // A traced graph must not return a parameter or buffer directly, so an alias of the tensor is
    // returned.
    for (auto& output : outputs) {
      if (owned.count(output.unsafeGetTensorImpl()) > 0) output = at::alias(output);
    }
    if (outputs.size() == 1) return {outputs.front()};
    return {c10::ivalue::Tuple::create({outputs.begin(), outputs.end()})};
  };
  // The inputs are copied, since `function` may mutate them.
  const auto copies = copies_of(inputs);
  const auto no_variable_names = [](const torch::Tensor&) { return std::string(); };
  const auto trace = [&] {
    return jit::tracer::trace(jit::Stack(copies.begin(), copies.end()), traced_function,
                              no_variable_names, /*strict=*/true, /*force_outplace=*/false,
                              &scripted, numbered_names(input_names, inputs.size(), "input"));
  };
  std::shared_ptr<jit::tracer::TracingState> state;
  try {
    const ThreadCallback copy(at::RecordFunctionCallback(start_call, copy_foreign_constants));
    state = trace().first;
  } catch (const c10::Error& error) {
    const std::string_view what = error.what_without_backtrace();
    if (what.find("Tensor that requires grad as a constant") == std::string_view::npos) {
      throw std::runtime_error(fmt::format("{} throws for the example inputs, {}: {}", name,
                                           shapes_text(inputs), short_message(error)));
    }
    throw std::runtime_error(
        fmt::format("{} uses a tensor that requires grad and is not a parameter of the module; "
                    "register it as a parameter",
                    name));
  }
  check_generators(*state->graph, name);
  remove_dropout(*state->graph);
  const auto type = scripted.type();
  auto* method = type->compilation_unit()->create_function(c10::QualifiedName(*type->name(), name),
                                                           state->graph);
  type->addMethod(method);
  return spec;
}

}  // namespace attend
