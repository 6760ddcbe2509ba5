#include "export/pt2/write_program.h"

#include "export/nested.h"
#include "export/pt2/module_stacks.h"
#include "pt2/sympy_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace attend::pt2 {
namespace {

using namespace program;

// Sorts the keys of an object; ordered_json copies the values of an object that grows.
using Json = nlohmann::json;

template <typename T, typename Write>
Json list_of(const std::vector<T>& all, const Write& write) {
  auto list = Json::array();
  for (const auto& item : all) list.push_back(write(item));
  return list;
}

Json json_of(const Device& device) {
  return {{"type", device.type}, {"index", device.index ? Json(*device.index) : Json()}};
}

Json json_of(const Size& size) {
  if (size.expression.empty()) return {{"as_int", size.value}};
  const bool has_hint = !size.expression.contains(Expression::Kind::unbacked);
  const auto hint = has_hint ? Json{{"as_int", size.value}} : Json();
  return {{"as_expr", {{"expr_str", sympy_text(size.expression)}, {"hint", hint}}}};
}

Json json_of(const TensorMeta& meta) {
  const auto sizes = [](const auto& all) {
    return list_of(all, [](const Size& size) { return json_of(size); });
  };
  return {{"dtype", meta.dtype},
          {"sizes", sizes(meta.sizes)},
          {"requires_grad", meta.requires_grad},
          {"device", json_of(meta.device)},
          {"strides", sizes(meta.strides)},
          {"storage_offset", json_of(meta.storage_offset)},
          {"layout", meta.layout}};
}

Json json_of(const TensorName& tensor) {
  return {{"name", tensor.name}};
}

/// Encodes NaN and infinities as strings, as torch.export's schema requires, since JSON has no such
/// numbers.
Json json_of_real(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

struct WriteArgument {
  const std::set<std::string>& sym_floats;  // of the program

  Json operator()(None) const { return {{"as_none", true}}; }
  Json operator()(const TensorName& tensor) const { return {{"as_tensor", json_of(tensor)}}; }
  Json operator()(const std::vector<TensorName>& tensors) const {
    return {{"as_tensors", list_of(tensors, [](const auto& t) { return json_of(t); })}};
  }
  Json operator()(const std::vector<OptionalTensor>& tensors) const {
    return {{"as_optional_tensors",
             list_of(tensors, [this](const auto& tensor) { return std::visit(*this, tensor); })}};
  }
  Json operator()(const SymbolName& symbol) const {
    const auto* type = sym_floats.contains(symbol.name) ? "as_sym_float" : "as_sym_int";
    return {{type, {{"as_name", symbol.name}}}};
  }
  Json operator()(int64_t value) const { return {{"as_int", value}}; }
  Json operator()(double value) const { return {{"as_float", json_of_real(value)}}; }
  Json operator()(bool value) const { return {{"as_bool", value}}; }
  Json operator()(const std::string& value) const { return {{"as_string", value}}; }
  Json operator()(const std::vector<std::string>& values) const { return {{"as_strings", values}}; }
  Json operator()(const std::vector<ValueOrSymbol<int64_t>>& values) const {
    const auto is_symbol = [](const auto& v) { return std::holds_alternative<SymbolName>(v); };
    if (std::none_of(values.begin(), values.end(), is_symbol)) {
      return {{"as_ints", list_of(values, [](const auto& v) { return std::get<int64_t>(v); })}};
    }
    return {{"as_sym_ints", list_of(values, [](const auto& v) {
               const auto* symbol = std::get_if<SymbolName>(&v);
               return symbol != nullptr ? Json{{"as_name", symbol->name}}
                                        : Json{{"as_int", std::get<int64_t>(v)}};
             })}};
  }
  Json operator()(const std::vector<ValueOrSymbol<double>>& values) const {
    return {{"as_floats",
             list_of(values, [](const auto& v) { return json_of_real(std::get<double>(v)); })}};
  }
  Json operator()(const std::vector<ValueOrSymbol<bool>>& values) const {
    return {{"as_bools", list_of(values, [](const auto& v) { return std::get<bool>(v); })}};
  }
  Json operator()(SchemaDtype dtype) const { return {{"as_scalar_type", dtype.value}}; }
  Json operator()(SchemaLayout layout) const { return {{"as_layout", layout.value}}; }
  Json operator()(SchemaMemoryFormat format) const { return {{"as_memory_format", format.value}}; }
  Json operator()(const Device& device) const { return {{"as_device", json_of(device)}}; }
};

Json json_of(const Node& node, const WriteArgument& write, const std::string& module_stack) {
  const auto value = [&](const Argument& argument) { return std::visit(write, argument); };
  const auto input = [&](const NamedArgument& argument) {
    return Json{{"name", argument.name},
                {"arg", value(argument.value)},
                {"kind", argument.is_keyword_only ? 2 : 1}};
  };
  Json metadata{{"nn_module_stack", module_stack}};
  if (!node.stack_trace.empty()) metadata["stack_trace"] = node.stack_trace;
  return {{"target", node.target},
          {"inputs", list_of(node.inputs, input)},
          {"outputs", list_of(node.outputs, value)},
          {"metadata", metadata},
          {"is_hop_single_tensor_return", nullptr}};
}

Json spec_of(const Input& input) {
  const Json name{{"name", input.name}};
  switch (input.kind) {
    case InputKind::parameter:
      return {{"parameter", {{"arg", name}, {"parameter_name", input.target}}}};
    case InputKind::buffer:
      return {{"buffer",
               {{"arg", name}, {"buffer_name", input.target}, {"persistent", input.persistent}}}};
    case InputKind::constant:
      return {{"tensor_constant", {{"arg", name}, {"tensor_constant_name", input.target}}}};
    default:
      return {{"user_input", {{"arg", {{"as_tensor", name}}}}}};
  }
}

Json treespec(const TreeSpec& spec) {
  using Kind = TreeSpec::Kind;
  if (spec.kind == Kind::tensor || spec.kind == Kind::none) {
    return {{"type", nullptr}, {"context", nullptr}, {"children_spec", Json::array()}};
  }
  const bool is_dict = spec.kind == Kind::dict;
  const auto* type = is_dict ? "dict" : spec.kind == Kind::list ? "list" : "tuple";
  return {{"type", fmt::format("builtins.{}", type)},
          {"context", is_dict ? Json(spec.keys).dump() : "null"},
          {"children_spec",
           list_of(spec.children, [](const TreeSpec& child) { return treespec(child); })}};
}

/// Returns the call signature of the exported module, which has no keyword arguments.
Json call_of(const std::vector<ForwardArgument>& arguments, const TreeSpec& outputs) {
  auto names = Json::array();
  TreeSpec args{.kind = TreeSpec::Kind::tuple};
  for (const auto& argument : arguments) {
    names.push_back(argument.name);
    args.children.push_back(argument.spec);
  }
  const Json in = {1, treespec({.kind = TreeSpec::Kind::tuple,
                                .children = {args, {.kind = TreeSpec::Kind::dict}}})};
  const Json out = {1, treespec(outputs)};
  return {{"fqn", ""},
          {"signature",
           {{"inputs", Json::array()},
            {"outputs", Json::array()},
            {"in_spec", in.dump()},
            {"out_spec", out.dump()},
            {"forward_arg_names", names}}}};
}

/// The inputs or outputs of a graph, and their specs in the signature.
struct Signature {
  Json values = Json::array();
  Json specs = Json::array();
  void add(const Json& value, const Json& spec) {
    values.push_back(value);
    specs.push_back(spec);
  }
};

const Json kNone{{"as_none", true}};

/// Returns the inputs: the weights, and the tensors and Nones in `arguments`.
Signature inputs_of(const ExportedProgram& program, const std::vector<ForwardArgument>& arguments) {
  Signature signature;
  const auto add = [&](const Input& input) {
    signature.add({{"as_tensor", {{"name", input.name}}}}, spec_of(input));
  };
  auto next = program.inputs.begin();
  for (; next != program.inputs.end() && next->kind != InputKind::user; ++next) add(*next);
  for (const auto& argument : arguments) {
    for (const auto& leaf : leaves_of(argument.spec)) {
      if (!leaf.is_none) {
        add(*next++);
        continue;
      }
      auto name = flat_name(argument.name, leaf.path);
      while (program.tensors.contains(name)) name += "_";
      signature.add(kNone, {{"constant_input", {{"name", name}, {"value", kNone}}}});
    }
  }
  return signature;
}

/// Returns the outputs: the tensors of the program, and the Nones in `structure`.
Signature outputs_of(const ExportedProgram& program, const TreeSpec& structure,
                     const WriteArgument& write) {
  Signature signature;
  auto next = program.outputs.begin();
  for (const auto& leaf : leaves_of(structure)) {
    const auto value = leaf.is_none ? kNone : std::visit(write, (next++)->value);
    signature.add(value, {{"user_output", {{"arg", value}}}});
  }
  return signature;
}

}  // namespace

std::string program_json(const TracedProgram& traced, const std::string& torch_version) {
  const auto& program = traced.program;
  auto arguments = traced.trace.method.arguments;
  if (arguments.empty()) {
    for (const auto& input : program.inputs) {
      if (input.kind == InputKind::user) arguments.push_back({.name = input.name, .spec = {}});
    }
  }
  Json tensors = Json::object();
  for (const auto& [name, meta] : program.tensors) tensors[name] = json_of(meta);
  Json sym_ints = Json::object();
  for (const auto& [name, size] : program.sym_ints) sym_ints[name] = json_of(size);
  Json ranges = Json::object();
  for (const auto& [symbol, range] : program.ranges) {
    ranges[symbol] = {{"min_val", range.min ? Json(*range.min) : Json()},
                      {"max_val", range.max ? Json(*range.max) : Json()}};
  }
  const WriteArgument write{program.sym_floats};
  const auto inputs = inputs_of(program, arguments);
  const auto outputs = outputs_of(program, traced.trace.outputs, write);
  // Each SymFloat has a symbol of its own. PyTorch computes the expressions again when it runs the
  // nodes.
  Json sym_floats = Json::object();
  for (const auto& name : program.sym_floats) {
    const auto symbol = fmt::format("Symbol('zuf{}')", sym_floats.size());
    sym_floats[name] = {{"as_expr", {{"expr_str", symbol}, {"hint", nullptr}}}};
  }
  const auto stacks = module_stacks(program);
  auto nodes = Json::array();
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    nodes.push_back(json_of(program.nodes[i], write, module_stack_text(stacks[i])));
  }
  Json graph{{"inputs", inputs.values},
             {"outputs", outputs.values},
             {"nodes", std::move(nodes)},
             {"tensor_values", std::move(tensors)},
             {"sym_int_values", std::move(sym_ints)},
             {"sym_bool_values", Json::object()},
             {"is_single_tensor_return", false},
             {"custom_obj_values", Json::object()},
             {"sym_float_values", std::move(sym_floats)}};
  auto module_calls = Json::array({call_of(arguments, traced.trace.outputs)});
  std::set<std::string> called{""};
  for (const auto& stack : stacks) {
    for (const auto& name : stack) {
      if (called.insert(name).second)
        module_calls.push_back({{"fqn", name}, {"signature", nullptr}});
    }
  }
  Json module{{"graph", std::move(graph)},
              {"signature", {{"input_specs", inputs.specs}, {"output_specs", outputs.specs}}},
              {"module_call_graph", std::move(module_calls)},
              {"metadata", Json::object()},
              {"treespec_namedtuple_fields", Json::object()}};
  return Json{{"graph_module", std::move(module)},
              {"opset_version", {{"aten", 10}}},
              {"range_constraints", ranges},
              {"schema_version", {{"major", kSchemaMajor}, {"minor", kSchemaMinor}}},
              {"verifiers", {"TRAINING"}},
              {"torch_version", torch_version},
              {"guards_code", Json::array()}}
      .dump();
}

std::string weights_json(const std::map<std::string, Weight>& weights) {
  Json config = Json::object();
  for (const auto& [name, weight] : weights) {
    config[name] = {{"path_name", weight.entry},
                    {"is_param", weight.is_parameter},
                    {"use_pickle", false},
                    {"tensor_meta", json_of(weight.meta)}};
  }
  return Json{{"config", config}}.dump();
}

}  // namespace attend::pt2
