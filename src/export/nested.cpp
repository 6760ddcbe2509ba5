#include "export/nested.h"

#include "export/numbered_names.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace attend {
namespace {

namespace jit = torch::jit;

using TreeKind = TreeSpec::Kind;

void add_leaves(const TreeSpec& spec, const std::string& path, std::vector<TreeLeaf>& leaves) {
  if (spec.kind == TreeKind::tensor || spec.kind == TreeKind::none) {
    leaves.push_back({path, spec.kind == TreeKind::none});
  }
  for (std::size_t i = 0; i < spec.children.size(); ++i) {
    const auto key = spec.kind == TreeKind::dict ? spec.keys[i] : std::to_string(i);
    add_leaves(spec.children[i], path.empty() ? key : fmt::format("{}.{}", path, key), leaves);
  }
}

c10::TypePtr type_of_nested(const TreeSpec& spec);

/// Returns the type of the elements of a list or dictionary.
c10::TypePtr element_type(const TreeSpec& spec) {
  if (spec.children.empty()) return c10::TensorType::get();
  auto type = type_of_nested(spec.children.front());
  for (const auto& child : spec.children) {
    const auto child_type = type_of_nested(child);
    const auto unified = c10::unifyTypes(type, child_type);
    TORCH_CHECK_VALUE(unified.has_value(),
                      "the elements of a list or dictionary in a TorchScript file must have the "
                      "same type, found ",
                      type->annotation_str(), " and ", child_type->annotation_str());
    type = *unified;
  }
  return type;
}

c10::TypePtr type_of_nested(const TreeSpec& spec) {
  switch (spec.kind) {
    case TreeKind::none:
      return c10::OptionalType::ofTensor();
    case TreeKind::list:
      return c10::ListType::create(element_type(spec));
    case TreeKind::dict:
      return c10::DictType::create(c10::StringType::get(), element_type(spec));
    case TreeKind::tuple: {
      std::vector<c10::TypePtr> types;
      for (const auto& child : spec.children) types.push_back(type_of_nested(child));
      return c10::TupleType::create(std::move(types));
    }
    default:
      return c10::TensorType::get();
  }
}

using NextTensor = std::vector<torch::Tensor>::const_iterator;

c10::IValue nest(const TreeSpec& spec, NextTensor& next, bool as_any) {
  if (spec.kind == TreeKind::none) return {};
  if (spec.kind == TreeKind::tensor) return *next++;
  std::vector<c10::IValue> children;
  for (const auto& child : spec.children) children.push_back(nest(child, next, as_any));
  if (spec.kind == TreeKind::tuple) return c10::ivalue::Tuple::create(std::move(children));
  const c10::TypePtr type = as_any ? c10::AnyType::get() : element_type(spec);
  if (spec.kind == TreeKind::list) {
    c10::impl::GenericList list(type);
    for (auto& child : children) list.push_back(std::move(child));
    return list;
  }
  c10::impl::GenericDict dict(c10::StringType::get(), type);
  for (std::size_t i = 0; i < children.size(); ++i) dict.insert(spec.keys[i], children[i]);
  return dict;
}

/// Adds nodes that read the tensors in the nested `value`, and appends these tensors to `tensors`.
void add_reads(jit::Graph& graph, jit::Value* value, const TreeSpec& spec,
               std::vector<jit::Value*>& tensors) {
  static const auto get_item = c10::Symbol::aten("__getitem__");
  static const auto unwrap = c10::Symbol::aten("_unwrap_optional");
  if (spec.kind == TreeKind::tensor) {  // optional if another element of the list or dict is None
    const bool is_optional = value->type()->kind() == c10::TypeKind::OptionalType;
    tensors.push_back(is_optional ? graph.insert(unwrap, {value}) : value);
    return;
  }
  const auto parts = spec.kind == TreeKind::tuple
                         ? graph.insertNode(graph.createTupleUnpack(value))->outputs()
                         : at::ArrayRef<jit::Value*>();
  for (std::size_t i = 0; i < spec.children.size(); ++i) {
    const auto& child = spec.children[i];
    if (spec.kind == TreeKind::tuple) {
      add_reads(graph, parts[i], child, tensors);
    } else if (child.kind != TreeKind::none) {
      const auto key = spec.kind == TreeKind::dict ? c10::IValue(spec.keys[i])
                                                   : c10::IValue(static_cast<int64_t>(i));
      add_reads(graph, graph.insert(get_item, {value, key}), child, tensors);
    }
  }
}

/// Adds nodes that create a nested value from the tensors at `next`, and returns the value.
jit::Value* add_nested(jit::Graph& graph, const TreeSpec& spec,
                       std::vector<jit::Value*>::const_iterator& next) {
  if (spec.kind == TreeKind::tensor) return *next++;
  if (spec.kind == TreeKind::none) {
    return graph.insertNode(graph.createNone())->output()->setType(type_of_nested(spec));
  }
  std::vector<jit::Value*> keys, children;
  for (const auto& child : spec.children) children.push_back(add_nested(graph, child, next));
  if (spec.kind == TreeKind::tuple) return graph.insertNode(graph.createTuple(children))->output();
  const auto type = element_type(spec);
  if (spec.kind == TreeKind::list)
    return graph.insertNode(graph.createList(type, children))->output();
  for (const auto& key : spec.keys) keys.push_back(graph.insertConstant(key));
  return graph.insertNode(graph.createDict(c10::StringType::get(), type, keys, children))->output();
}

}  // namespace

std::vector<TreeLeaf> leaves_of(const TreeSpec& spec) {
  std::vector<TreeLeaf> leaves;
  add_leaves(spec, "", leaves);
  return leaves;
}

std::string flat_name(const std::string& argument, const std::string& path) {
  if (path.empty()) return argument;
  auto name = path;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return fmt::format("{}_{}", argument, name);
}

std::vector<std::string> output_names_of(const TreeSpec& spec, std::vector<std::string> names) {
  std::vector<std::string> paths;
  for (const auto& leaf : leaves_of(spec)) {
    if (leaf.is_none) continue;
    const auto* prefix = spec.kind == TreeKind::dict ? "" : "output";
    paths.push_back(prefix + (leaf.path.empty() ? "0" : leaf.path));
  }
  for (auto i = names.size(); i < paths.size(); ++i) names.push_back(paths[i]);
  return names;
}

ExportOptions with_arguments(ExportOptions options, std::vector<TreeSpec> specs) {
  TORCH_CHECK_VALUE(options.input_names.size() <= specs.size(), "found ",
                    options.input_names.size(), " input_names, expected at most ", specs.size(),
                    ", the number of arguments");
  const auto names = numbered_names(options.input_names, specs.size(), "input");
  options.input_names.clear();
  options.arguments.clear();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (const auto& leaf : leaves_of(specs[i])) {
      if (!leaf.is_none) options.input_names.push_back(flat_name(names[i], leaf.path));
    }
    options.arguments.push_back({names[i], std::move(specs[i])});
  }
  return options;
}

std::vector<c10::IValue> nest(const std::vector<ForwardArgument>& arguments,
                              const std::vector<torch::Tensor>& tensors, bool as_any) {
  if (arguments.empty()) return {tensors.begin(), tensors.end()};
  std::vector<c10::IValue> values;
  auto next = tensors.begin();
  for (const auto& argument : arguments) values.push_back(nest(argument.spec, next, as_any));
  return values;
}

std::vector<torch::Tensor> flatten(const c10::IValue& value) {
  if (value.isNone()) return {};
  if (value.isTensor()) return {value.toTensor()};
  std::vector<torch::Tensor> tensors;
  const auto add = [&](const c10::IValue& child) {
    for (auto& tensor : flatten(child)) tensors.push_back(std::move(tensor));
  };
  if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) add(item.value());
  } else if (value.isList()) {
    for (const auto& child : value.toListRef()) add(child);
  } else {
    for (const auto& child : value.toTupleRef().elements()) add(child);
  }
  return tensors;
}

void nest_graph(jit::Graph& graph, const std::vector<ForwardArgument>& arguments,
                const TreeSpec& outputs) {
  if (!arguments.empty()) {
    const auto count = graph.inputs().size();  // with the module
    std::vector<jit::Value*> nested, tensors;
    const jit::WithInsertPoint before(graph.param_node()->next());
    for (const auto& argument : arguments) {
      nested.push_back(graph.addInput()->setType(type_of_nested(argument.spec)));
      add_reads(graph, nested.back(), argument.spec, tensors);
    }
    for (auto i = count - 1; i > 0; --i) {
      graph.inputs()[i]->replaceAllUsesWith(tensors.at(i - 1));
      graph.eraseInput(i);
    }
    for (std::size_t i = 0; i < nested.size(); ++i) nested[i]->setDebugName(arguments[i].name);
  }
  if (outputs.kind == TreeKind::tensor) return;
  auto* output = graph.outputs().front();
  auto* tuple = output->node();
  const bool is_tuple = tuple->kind() == c10::prim::TupleConstruct;
  const auto tensors = is_tuple ? tuple->inputs().vec() : std::vector<jit::Value*>{output};
  auto next = tensors.begin();
  const jit::WithInsertPoint end(graph.return_node());
  graph.return_node()->replaceInput(0, add_nested(graph, outputs, next));
  if (is_tuple) tuple->destroy();
}

}  // namespace attend
