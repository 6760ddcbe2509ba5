#include "pt2/parse_program.h"

#include "io/parse_json.h"
#include "pt2/json_value.h"
#include "pt2/output_names.h"
#include "pt2/sympy_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace attend::pt2 {
namespace {

using namespace program;

template <typename T, typename Read>
std::vector<T> list_of(const JsonValue& list, const Read& read) {
  std::vector<T> all;
  for (const auto& item : list.items()) all.emplace_back(std::invoke(read, item));
  return all;
}

TensorName tensor_of(const JsonValue& value) {
  return {value.at("name").text()};
}

Device device_of(const JsonValue& value) {
  Device device{.type = value.at("type").text(), .index = {}};
  if (value.has("index")) device.index = value.at("index").integer();
  return device;
}

OptionalTensor optional_tensor_of(const JsonValue& value) {
  const auto [kind, content] = value.only();
  if (kind == "as_none") return None{};
  if (kind == "as_tensor") return tensor_of(content);
  value.fail(fmt::format("expected as_tensor or as_none, found {}", kind));
}

/// Returns a parser of an object with one key. If the key is `literal`, such as "as_int", parses
/// the value with `read`. If the key is "as_name", the value is the name of a symbol.
template <typename T>
constexpr auto or_symbol(const char* literal, T (JsonValue::*read)() const) {
  return [=](const JsonValue& value) -> ValueOrSymbol<T> {
    const auto [kind, content] = value.only();
    if (kind == "as_name") return SymbolName{content.text()};
    if (kind == literal) return (content.*read)();
    value.fail(fmt::format("expected as_name or {}, found {}", literal, kind));
  };
}
constexpr auto integer_or_symbol = or_symbol("as_int", &JsonValue::integer);
constexpr auto real_or_symbol = or_symbol("as_float", &JsonValue::real);
constexpr auto boolean_or_symbol = or_symbol("as_bool", &JsonValue::boolean);

/// Returns an alternative of a smaller variant as an argument.
template <typename... Types>
Argument argument_from(const std::variant<Types...>& either) {
  return std::visit([](const auto& value) { return Argument(value); }, either);
}

using ReadArgument = std::function<Argument(const JsonValue&)>;

template <typename T, typename Read>
ReadArgument each(Read read) {
  return [read](const JsonValue& list) { return list_of<T>(list, read); };
}

/// Argument is a union type in torch.export's schema. Returns a parser for each member of the union
/// that is supported. The keys of the map are the names of the members.
const std::map<std::string, ReadArgument>& argument_readers() {
  static const std::map<std::string, ReadArgument> all{
      {"as_none", [](const JsonValue&) { return None{}; }},
      {"as_tensor", tensor_of},
      {"as_tensors", each<TensorName>(tensor_of)},
      {"as_optional_tensor", [](const auto& v) { return argument_from(optional_tensor_of(v)); }},
      {"as_optional_tensors", each<OptionalTensor>(optional_tensor_of)},
      {"as_int", &JsonValue::integer},
      {"as_ints", each<ValueOrSymbol<int64_t>>(&JsonValue::integer)},
      {"as_float", &JsonValue::real},
      {"as_floats", each<ValueOrSymbol<double>>(&JsonValue::real)},
      {"as_bool", &JsonValue::boolean},
      {"as_bools", each<ValueOrSymbol<bool>>(&JsonValue::boolean)},
      {"as_string", &JsonValue::text},
      {"as_strings", each<std::string>(&JsonValue::text)},
      {"as_sym_int", [](const auto& v) { return argument_from(integer_or_symbol(v)); }},
      {"as_sym_ints", each<ValueOrSymbol<int64_t>>(integer_or_symbol)},
      {"as_sym_float", [](const auto& v) { return argument_from(real_or_symbol(v)); }},
      {"as_sym_floats", each<ValueOrSymbol<double>>(real_or_symbol)},
      {"as_sym_bool", [](const auto& v) { return argument_from(boolean_or_symbol(v)); }},
      {"as_sym_bools", each<ValueOrSymbol<bool>>(boolean_or_symbol)},
      {"as_scalar_type", [](const auto& v) { return SchemaDtype{v.integer()}; }},
      {"as_layout", [](const auto& v) { return SchemaLayout{v.integer()}; }},
      {"as_memory_format", [](const auto& v) { return SchemaMemoryFormat{v.integer()}; }},
      {"as_device", device_of},
  };
  return all;
}

/// Parses a value of the union type Argument in torch.export's schema. Arguments and outputs of
/// nodes have this type, and so do inputs and outputs of graphs. Throws InputError if the kind of
/// argument is not supported.
Argument argument_of(const JsonValue& value) {
  const auto [kind, content] = value.only();
  const auto reader = argument_readers().find(kind);
  if (reader == argument_readers().end()) {
    value.fail(fmt::format("arguments of kind '{}' are not supported", kind));
  }
  return reader->second(content);
}

Size size_of(const JsonValue& value) {
  const auto [kind, content] = value.only();
  if (kind == "as_int") return {.value = content.integer(), .expression = {}};
  if (kind != "as_expr") value.fail(fmt::format("expected as_int or as_expr, found {}", kind));
  Size size{.value = 0, .expression = parse_sympy(content.at("expr_str").text())};
  if (size.expression.is(Expression::Kind::integer)) return {size.expression.integer()};
  if (content.has("hint")) size.value = content.at("hint").at("as_int").integer();
  return size;
}

TensorMeta meta_of(const JsonValue& value) {
  return {.dtype = value.at("dtype").integer(),
          .sizes = list_of<Size>(value.at("sizes"), size_of),
          .strides = list_of<Size>(value.at("strides"), size_of),
          .storage_offset = size_of(value.at("storage_offset")),
          .requires_grad = value.at("requires_grad").boolean(),
          .device = device_of(value.at("device")),
          .layout = value.at("layout").integer()};
}

NamedArgument named_argument_of(const JsonValue& value) {
  return {.name = value.at("name").text(), .value = argument_of(value.at("arg"))};
}

std::vector<Node> nodes_of(const JsonValue& graph);

constexpr const char* kWithEffects = "torch.ops.higher_order.with_effects";

/// Parses with_effects(token, operator, arguments...), which returns a token and the outputs of the
/// operator, as a call of the operator. Tokens order calls with side effects. The nodes of a graph
/// have the same order, so tokens are omitted.
Node node_with_effects(const JsonValue& value) {
  const auto inputs = value.at("inputs").items();
  const auto outputs = value.at("outputs").items();
  if (inputs.size() < 2 || outputs.empty()) {
    value.fail(fmt::format("expected 2 or more inputs and 1 or more outputs, found {} and {}",
                           inputs.size(), outputs.size()));
  }
  Node node{.target = inputs[1].at("arg").at("as_operator").text(), .inputs = {}, .outputs = {}};
  for (auto i = inputs.begin() + 2; i != inputs.end(); ++i) {
    node.inputs.push_back(named_argument_of(*i));
  }
  for (auto i = outputs.begin() + 1; i != outputs.end(); ++i) {
    if (i->only().first != "as_none") node.outputs.push_back(argument_of(*i));
  }
  return node;
}

Node node_of(const JsonValue& value) {
  if (value.at("target").text() == kWithEffects) return node_with_effects(value);
  Node node{.target = value.at("target").text(),
            .inputs = {},
            .outputs = list_of<Argument>(value.at("outputs"), argument_of)};
  for (const auto& input : value.at("inputs").items()) {
    if (!input.at("arg").has("as_graph")) {
      node.inputs.push_back(named_argument_of(input));
      continue;
    }
    const auto graph = input.at("arg").only().second.at("graph");
    node.graphs.push_back(std::make_shared<Graph>(
        Graph{.inputs = list_of<Argument>(graph.at("inputs"), argument_of),
              .nodes = nodes_of(graph),
              .outputs = list_of<Argument>(graph.at("outputs"), argument_of)}));
  }
  return node;
}

std::vector<Node> nodes_of(const JsonValue& graph) {
  return list_of<Node>(graph.at("nodes"), node_of);
}

Input input_of(const JsonValue& value) {
  const auto [kind, content] = value.only();
  const auto weight = [&, &spec = content](InputKind input, const char* target) {
    return Input{.kind = input,
                 .name = spec.at("arg").at("name").text(),
                 .target = spec.at(target).text(),
                 .persistent = true};
  };
  if (kind == "parameter") return weight(InputKind::parameter, "parameter_name");
  if (kind == "tensor_constant") return weight(InputKind::constant, "tensor_constant_name");
  if (kind == "buffer") {
    auto buffer = weight(InputKind::buffer, "buffer_name");
    buffer.persistent = content.at("persistent").boolean();
    return buffer;
  }
  if (kind != "user_input") value.fail(fmt::format("inputs of kind '{}' are not supported", kind));
  const auto argument = argument_of(content.at("arg"));
  Input input{.kind = InputKind::user, .name = {}, .target = {}, .persistent = true};
  if (const auto* tensor = std::get_if<TensorName>(&argument)) {
    input.name = tensor->name;
  } else if (content.at("arg").only().first == "as_sym_int" &&
             std::holds_alternative<SymbolName>(argument)) {
    input.name = std::get<SymbolName>(argument).name;
    input.is_sym_int = true;
  } else {
    value.fail("expected a tensor or an int as input; other types are not supported");
  }
  return input;
}

/// Parses the specs of inputs or outputs. Omits constant inputs, since the graph contains their
/// values, and tokens.
template <typename T>
std::vector<T> specs_of(const JsonValue& specs, T (*parse)(const JsonValue&)) {
  std::vector<T> all;
  for (const auto& spec : specs.items()) {
    const auto kind = spec.only().first;
    if (kind != "constant_input" && kind != "token") all.push_back(parse(spec));
  }
  return all;
}

Output output_of(const JsonValue& value) {
  const auto [kind, content] = value.only();
  if (kind == "user_output") {
    return {.kind = OutputKind::user, .value = argument_of(content.at("arg")), .target = {}};
  }
  const bool buffer = kind == "buffer_mutation";
  if (!buffer && kind != "user_input_mutation") {
    value.fail(fmt::format("outputs of kind '{}' are not supported", kind));
  }
  return {.kind = buffer ? OutputKind::buffer_mutation : OutputKind::input_mutation,
          .value = tensor_of(content.at("arg")),
          .target = content.at(buffer ? "buffer_name" : "user_input_name").text()};
}

Range range_of(const JsonValue& value) {
  Range range;
  if (value.has("min_val")) range.min = value.at("min_val").integer();
  if (value.has("max_val")) range.max = value.at("max_val").integer();
  return range;
}

Weight weight_of(const JsonValue& value) {
  if (value.at("use_pickle").boolean()) {
    value.fail("expected a tensor, found a Python pickle, which is not supported");
  }
  return {.entry = value.at("path_name").text(),
          .meta = meta_of(value.at("tensor_meta")),
          .is_parameter = value.at("is_param").boolean()};
}

}  // namespace

ExportedProgram parse_program(const std::string& text) {
  const auto json = parse_json(text);
  const JsonValue root(json);
  const auto version = root.at("schema_version").at("major");
  if (version.integer() != kSchemaMajor) {
    version.fail(fmt::format("expected {}, found {}", kSchemaMajor, version.integer()));
  }
  const auto module = root.at("graph_module");
  const auto graph = module.at("graph");
  ExportedProgram program{.inputs = specs_of(module.at("signature").at("input_specs"), input_of),
                          .outputs = specs_of(module.at("signature").at("output_specs"), output_of),
                          .nodes = nodes_of(graph),
                          .tensors = {},
                          .sym_ints = {},
                          .sym_floats = {},
                          .ranges = {},
                          .output_names = output_names(module)};
  const auto num_outputs =
      std::count_if(program.outputs.begin(), program.outputs.end(),
                    [](const Output& output) { return output.kind == OutputKind::user; });
  if (program.output_names.size() != static_cast<std::size_t>(num_outputs)) {
    module.fail(fmt::format("out_spec: expected {} outputs, found {}", num_outputs,
                            program.output_names.size()));
  }
  for (const auto& [name, meta] : graph.at("tensor_values").entries()) {
    program.tensors.emplace(name, meta_of(meta));
  }
  for (const auto& [name, size] : graph.at("sym_int_values").entries()) {
    program.sym_ints.emplace(name, size_of(size));
  }
  for (const auto& [symbol, range] : root.at("range_constraints").entries()) {
    program.ranges.emplace(symbol, range_of(range));
  }
  return program;
}

std::map<std::string, Weight> parse_weights(const std::string& text) {
  const auto json = parse_json(text);
  std::map<std::string, Weight> weights;
  for (const auto& [name, weight] : JsonValue(json).at("config").entries()) {
    weights.emplace(name, weight_of(weight));
  }
  return weights;
}

}  // namespace attend::pt2
