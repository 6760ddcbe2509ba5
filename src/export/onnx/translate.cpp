#include "export/onnx/translate.h"

#include "export/onnx/functionalization.h"
#include "export/onnx/rules.h"
#include "export/onnx/unsupported_operator_error.h"
#include "export/program/node_arguments.h"
#include "program/target.h"

#include <fmt/format.h>

#include <set>

namespace attend::onnx {
namespace {

/// Returns the operator's name with its overload, such as "aten::add.Tensor", as
/// `register_onnx_translation` expects it.
std::string full_name(const std::string& target) {
  const auto name = operator_name(target);
  const auto overload =
      program::is_operator(target) ? program::parse_target(target).dispatcher_overload() : "";
  return overload.empty() ? name : name + "." + overload;
}

/// Throws UnsupportedOperatorsError if the program calls operators that have no translation rule.
/// The error lists each of these operators once.
void check_rules(const program::ExportedProgram& program) {
  std::vector<UnsupportedOperatorsError::Reason> reasons;
  std::set<std::string> seen;
  std::string example;  // name of the first of these operators
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const auto& node = program.nodes[i];
    if (std::holds_alternative<program::SymbolName>(node.outputs.front())) continue;
    if (find_rule(node, program) != nullptr) continue;
    const auto name = full_name(node.target);
    const auto what = operator_name(node.target) +
                      (has_complex_tensor(node, program) ? " of complex tensors" : "");
    if (!seen.insert(name + what).second) continue;
    reasons.push_back({i, fmt::format("{} is not supported by the ONNX exporter", what)});
    if (example.empty()) example = name;
  }
  if (reasons.empty()) return;
  throw UnsupportedOperatorsError(
      std::move(reasons),
      fmt::format("to add a translation, call register_onnx_translation(\"{}\", ...)", example));
}

std::string text_of(const std::string& what, const std::exception& why) {
  return fmt::format("{} cannot be exported to ONNX: {}", what, why.what());
}

class Translator {
 public:
  Translator(const program::ExportedProgram& program, int64_t opset)
      : program_(program), translation_{program, Graph(opset)}, functionalization_(translation_) {}

  Model translate(const std::map<std::string, std::string>& tied_weights,
                  const std::vector<std::string>& output_names) && {
    check_rules(program_);
    add_inputs(tied_weights);
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) add_node(i);
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      add_output(program_.outputs[i], output_names.at(i));
    }
    std::vector<Value> outputs;
    for (const auto& output : model_.outputs) outputs.push_back(output.value);
    translation_.graph.drop_unused(outputs);
    model_.graph = std::move(translation_.graph);
    drop_unused_weights();
    return std::move(model_);
  }

 private:
  void add_inputs(const std::map<std::string, std::string>& tied_weights) {
    std::map<std::string, Value> weights;
    for (const auto& input : program_.inputs) {
      const auto same = tied_weights.find(input.target);
      if (same != tied_weights.end()) {
        translation_.values[input.name] = weights.at(same->second);
      } else if (input.kind == program::InputKind::user) {
        add_input(model_.inputs, "the input " + input.name, input.name, input.name);
      } else {
        weights[input.target] =
            add_input(model_.weights, "the weight " + input.target, input.target, input.name);
      }
    }
  }

  Value add_input(std::vector<ValueInfo>& infos, const std::string& what,
                  const std::string& name_in_file, const std::string& name) {
    auto meta = program_.tensors.at(name);
    try {
      const bool is_complex_weight = &infos == &model_.weights && is_complex(meta);
      const auto value =
          translation_.graph.add_input(is_complex_weight ? component_type_of(meta) : type_of(meta));
      translation_.values[name] = value;
      translation_.add_dynamic_sizes(value, meta.sizes);
      if (is_complex_weight) meta.sizes.push_back({.value = 2});
      infos.push_back({name_in_file, value, meta});
      return value;
    } catch (const UnsupportedOperatorError& why) {
      throw std::runtime_error(text_of(what, why));
    }
  }

  /// Adds the nodes that compute a SymInt or SymFloat. SymInts are computed from their expression.
  void add_number(const program::Node& node, const std::string& name) {
    auto& graph = translation_.graph;
    if (!program_.sym_floats.contains(name)) {
      translation_.values[name] = translation_.size(program_.sym_ints.at(name));
      return;
    }
    std::vector<Value> arguments;
    for (const auto& input : node.inputs) {
      const auto* symbol = std::get_if<program::SymbolName>(&input.value);
      arguments.push_back(symbol != nullptr
                              ? graph.cast(translation_.values.at(symbol->name), Type::float64)
                              : graph.number(Type::float64, std::get<double>(input.value)));
    }
    static const std::map<std::string, const char*> operators{{"torch.sym_float", "Identity"},
                                                              {"torch.sym_sqrt", "Sqrt"},
                                                              {"_operator.truediv", "Div"},
                                                              {"_operator.mul", "Mul"}};
    translation_.values[name] = graph.add(operators.at(node.target), arguments);
  }

  void add_node(std::size_t index) {
    const auto& node = program_.nodes[index];
    try {
      if (const auto* number = std::get_if<program::SymbolName>(&node.outputs.front())) {
        return add_number(node, number->name);
      }
      functionalization_.check_reads(node);
      check_defined(node);
      Call call(node, translation_);
      (*find_rule(node, program_))(call);
      functionalization_.record(node);
    } catch (const std::exception& why) {
      throw UnsupportedOperatorsError({{index, text_of(operator_name(node.target), why)}});
    }
  }

  /// Throws UnsupportedOperatorError if the node reads an output that the translation rule of an
  /// earlier node has not set. Translation rules may omit rarely used outputs.
  void check_defined(const program::Node& node) const {
    for (const auto& input : node.inputs) {
      for (const auto& name : program::names_in(input.value)) {
        if (translation_.values.count(name) > 0) continue;
        throw UnsupportedOperatorError(
            fmt::format("its input '{}' is an output of an earlier operator, and the ONNX exporter "
                        "does not support this output",
                        name));
      }
    }
  }

  void add_output(const program::Output& output, const std::string& name) {
    const auto& tensor = std::get<program::TensorName>(output.value).name;
    const auto found = translation_.values.find(tensor);
    try {
      functionalization_.check_read(tensor);
      type_of(program_.tensors.at(tensor));  // throws for a complex output
      if (found == translation_.values.end())
        throw UnsupportedOperatorError(
            "it is an output of an operator, and the ONNX exporter does not support this output");
    } catch (const UnsupportedOperatorError& why) {
      throw std::runtime_error(text_of("the output " + name, why));
    }
    // The output is a copy of the value, computed by an Identity node, so that the output has its
    // own name even if the value is also an input or is returned twice.
    const auto value = translation_.graph.add("Identity", {found->second});
    model_.outputs.push_back({name, value, program_.tensors.at(tensor)});
  }

  /// Removes weights that no node reads, such as weights that `forward` uses only in training mode.
  void drop_unused_weights() {
    std::set<std::size_t> used;
    for (const auto& node : model_.graph.nodes()) {
      for (const auto& input : node.inputs) used.insert(input.id);
    }
    std::erase_if(model_.weights,
                  [&](const ValueInfo& weight) { return used.count(weight.value.id) == 0; });
  }

  const program::ExportedProgram& program_;
  Translation translation_;
  Functionalization functionalization_;
  Model model_;
};

}  // namespace

Model translate(const program::ExportedProgram& program,
                const std::map<std::string, std::string>& tied_weights,
                const std::vector<std::string>& output_names, int64_t opset) {
  return Translator(program, opset).translate(tied_weights, output_names);
}

}  // namespace attend::onnx
