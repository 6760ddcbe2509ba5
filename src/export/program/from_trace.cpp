#include "export/program/from_trace.h"

#include "export/program/node_arguments.h"
#include "export/program/sym_int_nodes.h"
#include "export/trace.h"
#include "program/schema_enums.h"
#include "program/target.h"
#include "resolved.h"

#include <ATen/TensorIndexing.h>
#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

namespace attend::program {
namespace {

namespace jit = torch::jit;
using c10::IValue;
using c10::TypeKind;

/// Makes valid and unique names: replaces all characters except letters and digits by '_', and
/// appends a number to a name that is already taken.
class UniqueNames {
 public:
  std::string make(std::string wanted) {
    for (auto& c : wanted) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    }
    auto name = wanted;
    auto& next = next_[wanted];
    while (!taken_.insert(name).second) name = fmt::format("{}_{}", wanted, ++next);
    return name;
  }

 private:
  std::set<std::string> taken_;
  std::map<std::string, int> next_;  // number to append, by wanted name
};

[[noreturn]] void fail(const jit::Node& node, const std::string& why) {
  throw std::runtime_error(
      fmt::format("{} cannot be exported: {}", node.kind().toQualString(), why));
}

/// Returns the target of an operator that computes a number from numbers, or the size of a tensor;
/// nullopt for other operators. `lift_sizes` adds such operators.
std::optional<std::string> target_of_number(const jit::Node& node) {
  static const std::map<c10::Symbol, std::string> targets{
      {c10::aten::size, "torch.ops.aten.sym_size.int"},
      {c10::aten::div, "_operator.truediv"},
      {c10::aten::sqrt, "torch.sym_sqrt"},
      {c10::aten::floor, "math.trunc"},
      {c10::aten::Float, "torch.sym_float"}};
  if (node.outputs().size() != 1 || !node.output()->type()->isSubtypeOf(*c10::NumberType::get())) {
    return std::nullopt;
  }
  const auto function = std::ranges::find(kSizeFunctions, node.kind(), &SizeFunction::symbol);
  if (function != kSizeFunctions.end()) return std::string(function->target);
  const auto found = targets.find(node.kind());
  return found == targets.end() ? std::nullopt : std::optional(found->second);
}

class Converter {
 public:
  Converter(const jit::Module& module, StackTraces stack_traces)
      : graph_(module.get_method("forward").graph()), stack_traces_(std::move(stack_traces)) {
    modules_.try_emplace(graph_->inputs().at(0));  // the module itself has an empty path
    // The inputs are named first, so that an input keeps its name if a weight has the same name.
    for (std::size_t i = 1; i < graph_->inputs().size(); ++i) {
      const auto* value = graph_->inputs()[i];
      tensors_[value] = names_.make(value->debugName());
    }
    for (const auto& item : module.named_parameters()) {
      add_weight(InputKind::parameter, "p_", item.name, item.value);
    }
    for (const auto& item : module.named_buffers()) {
      add_weight(InputKind::buffer, "b_", item.name, item.value);
    }
  }

  TracedProgram convert() && {
    for (std::size_t i = 1; i < graph_->inputs().size(); ++i) {
      const auto& name = tensors_.at(graph_->inputs()[i]);
      user_inputs_.push_back({.kind = InputKind::user, .name = name, .target = {}});
    }
    for (auto* node : graph_->nodes()) add(*node);
    auto& inputs = traced_.program.inputs;
    inputs.insert(inputs.end(), constants_.begin(), constants_.end());
    inputs.insert(inputs.end(), user_inputs_.begin(), user_inputs_.end());
    for (const auto* output : graph_->outputs()) add_output(output);
    return std::move(traced_);
  }

 private:
  void add_weight(InputKind kind, const char* prefix, const std::string& target,
                  const torch::Tensor& tensor) {
    const auto name = names_.make(prefix + target);
    traced_.program.inputs.push_back({.kind = kind, .name = name, .target = target});
    traced_.weights.emplace(target, resolved(tensor));
    weights_[target] = name;
  }

  std::string add_constant(const torch::Tensor& tensor) {
    const auto target = fmt::format("lifted_tensor_{}", constants_.size());
    const auto name = names_.make("c_" + target);
    constants_.push_back({.kind = InputKind::constant, .name = name, .target = target});
    traced_.weights.emplace(target, resolved(tensor));
    return name;
  }

  void add(const jit::Node& node) {
    if (node.kind() == c10::prim::GetAttr) {
      add_attribute(node);
    } else if (const auto target = target_of_number(node)) {
      add_number(node, *target);
    } else if (is_call(node)) {  // also converts constants and lists in the arguments
      add_call(node);
    }
  }

  /// Records the path of the submodule, or the name of the weight, that GetAttr returns.
  void add_attribute(const jit::Node& node) {
    const auto& parent = modules_.at(node.input());
    const auto path =
        parent.empty() ? node.s(jit::attr::name) : parent + "." + node.s(jit::attr::name);
    if (node.output()->type()->kind() == TypeKind::ClassType) {
      modules_[node.output()] = path;
    } else {
      tensors_[node.output()] = weights_.at(path);
    }
  }

  void add_number(const jit::Node& node, const std::string& target) {
    const bool is_size = node.kind() == c10::aten::size;
    const std::array<const char*, 2> names =
        is_size ? std::array{"self", "dim"} : std::array{"a", "b"};
    const bool is_real = node.output()->type()->kind() == TypeKind::FloatType;
    const SymbolName name{names_.make(is_real ? "sym_float" : "sym_int")};
    Node call{.target = target, .inputs = {}, .outputs = {name}};
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const auto* value = node.input(i);
      call.inputs.push_back({names.at(i), argument_of(node, value, value->type())});
    }
    numbers_[node.output()] = name.name;
    if (is_real) {
      traced_.program.sym_floats.insert(name.name);
    } else {
      traced_.program.sym_ints[name.name] = {};
    }
    traced_.program.nodes.push_back(std::move(call));
  }

  void add_call(const jit::Node& node) {
    const auto* schema = node.maybeSchema();
    if (schema == nullptr) fail(node, "expected an operator with a schema");
    Node call{
        .target = target_of(schema->name(), schema->overload_name()), .inputs = {}, .outputs = {}};
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const auto& argument = schema->arguments().at(i);
      call.inputs.push_back({argument.name(),
                             argument_of(node, node.input(i), argument.real_type()),
                             argument.kwarg_only()});
    }
    if (key_of(call.target) == "slice.Tensor") set_end_of_open_slice(call);
    const std::string base = schema->name().substr(schema->name().find("::") + 2);
    for (const auto* output : node.outputs()) call.outputs.push_back(result_of(node, output, base));
    call.stack_trace = stack_traces_[&node];
    traced_.program.nodes.push_back(std::move(call));
  }

  /// x.slice(1, 2) and x.index({Slice(), Slice(2)}) both extend to the end of the dimension, but
  /// are traced with different numbers as the argument `end`. Replaces both numbers by kEnd.
  static void set_end_of_open_slice(Node& slice) {
    for (auto& input : slice.inputs) {
      const auto* number = std::get_if<int64_t>(&input.value);
      const bool is_open = number != nullptr && *number >= at::indexing::INDEX_MAX;
      if (input.name == "end" && is_open) input.value = kEnd;
    }
  }

  Argument result_of(const jit::Node& node, const jit::Value* output, const std::string& base) {
    if (output->type()->kind() == TypeKind::TensorType) return name_tensor(output, base);
    const auto unpacked =
        std::find_if(output->uses().begin(), output->uses().end(),
                     [](const auto& use) { return use.user->kind() == c10::prim::ListUnpack; });
    if (unpacked == output->uses().end() || output->uses().size() != 1) {
      fail(node, fmt::format("expected tensors as output, found {}", output->type()->str()));
    }
    std::vector<TensorName> parts;
    for (const auto* part : unpacked->user->outputs()) parts.push_back(name_tensor(part, base));
    return parts;
  }

  TensorName name_tensor(const jit::Value* value, const std::string& base) {
    tensors_[value] = names_.make(base);
    return {tensors_.at(value)};
  }

  /// Returns the argument for a value whose type in the operator's schema is `type`.
  Argument argument_of(const jit::Node& node, const jit::Value* value, const c10::TypePtr& type) {
    if (const auto optional = type->cast<c10::OptionalType>()) {
      const auto constant = jit::toIValue(value);
      if (constant && constant->isNone()) return None{};
      return argument_of(node, value, optional->getElementType());
    }
    if (const auto tensor = tensors_.find(value); tensor != tensors_.end()) {
      return TensorName{tensor->second};
    }
    if (const auto number = numbers_.find(value); number != numbers_.end()) {
      return SymbolName{number->second};
    }
    if (value->node()->kind() == c10::prim::ListConstruct)
      return list_of(node, *value->node(), type);
    const auto constant = jit::toIValue(value);
    if (!constant)
      fail(node, fmt::format("expected a tensor or a constant as argument, found a computed value "
                             "of type {}",
                             value->type()->str()));
    return literal(node, *constant, type);
  }

  Argument literal(const jit::Node& node, const IValue& value, const c10::TypePtr& type) {
    if (value.isNone()) return None{};
    if (value.isTensor()) return TensorName{add_constant(value.toTensor())};
    if (value.isDevice()) return device_of(value.toDevice());
    if (value.isString()) return value.toStringRef();
    if (value.isBool()) return value.toBool();
    if (value.isDouble()) return value.toDouble();
    if (value.isIntList()) return list_of_numbers(value.toIntVector());
    if (value.isDoubleList()) return list_of_numbers(value.toDoubleVector());
    if (!value.isInt())
      fail(node, fmt::format("an argument of type {} is not supported", value.tagKind()));
    switch (type->kind()) {
      case TypeKind::ScalarTypeType:
        return SchemaDtype{schema_enum(static_cast<c10::ScalarType>(value.toInt()))};
      case TypeKind::LayoutType:
        return SchemaLayout{schema_enum(static_cast<c10::Layout>(value.toInt()))};
      case TypeKind::MemoryFormatType:
        return SchemaMemoryFormat{schema_enum(static_cast<c10::MemoryFormat>(value.toInt()))};
      default:
        return value.toInt();
    }
  }

  template <typename T>
  static std::vector<ValueOrSymbol<T>> list_of_numbers(const std::vector<T>& numbers) {
    return {numbers.begin(), numbers.end()};
  }

  Argument list_of(const jit::Node& node, const jit::Node& list, const c10::TypePtr& type) {
    const auto element = type->cast<c10::ListType>();
    if (!element)
      fail(node, fmt::format("expected an argument of type {}, found a list", type->str()));
    std::vector<Argument> items;
    for (const auto* item : list.inputs()) {
      items.push_back(argument_of(node, item, element->getElementType()));
    }
    if (element->getElementType()->kind() == TypeKind::TensorType)
      return cast_all<TensorName>(items);
    if (element->getElementType()->kind() == TypeKind::OptionalType) return optional_tensors(items);
    if (element->getElementType()->kind() == TypeKind::FloatType) {
      const bool is_computed = std::any_of(items.begin(), items.end(), [](const Argument& item) {
        return std::holds_alternative<SymbolName>(item);
      });
      if (is_computed) fail(node, "a list of real numbers must not depend on sizes");
      return known_all<double>(items);
    }
    if (element->getElementType()->kind() == TypeKind::BoolType) return known_all<bool>(items);
    return known_all<int64_t>(items);
  }

  template <typename T>
  static std::vector<T> cast_all(const std::vector<Argument>& items) {
    std::vector<T> all;
    for (const auto& item : items) all.push_back(std::get<T>(item));
    return all;
  }
  template <typename T>
  static std::vector<ValueOrSymbol<T>> known_all(const std::vector<Argument>& items) {
    std::vector<ValueOrSymbol<T>> all;
    for (const auto& item : items) {
      if (const auto* symbol = std::get_if<SymbolName>(&item)) {
        all.emplace_back(*symbol);
      } else {
        all.emplace_back(std::get<T>(item));
      }
    }
    return all;
  }
  static std::vector<OptionalTensor> optional_tensors(const std::vector<Argument>& items) {
    std::vector<OptionalTensor> all;
    for (const auto& item : items) {
      if (const auto* tensor = std::get_if<TensorName>(&item)) {
        all.emplace_back(*tensor);
      } else {
        all.emplace_back(None{});
      }
    }
    return all;
  }

  void add_output(const jit::Value* value) {
    if (value->node()->kind() == c10::prim::TupleConstruct) {
      for (const auto* part : value->node()->inputs()) add_output(part);
      return;
    }
    const auto tensor = tensors_.find(value);
    if (tensor == tensors_.end()) fail(*value->node(), "expected a tensor as output of forward");
    traced_.program.outputs.push_back(
        {.kind = OutputKind::user, .value = TensorName{tensor->second}, .target = {}});
  }

  std::shared_ptr<jit::Graph> graph_;
  StackTraces stack_traces_;
  UniqueNames names_;
  std::map<const jit::Value*, std::string> modules_;  // paths of submodules, such as "decoder.norm"
  std::map<const jit::Value*, std::string> tensors_;  // names of tensors in the program
  std::map<const jit::Value*, std::string> numbers_;  // names of SymInts and SymFloats
  std::map<std::string, std::string> weights_;        // names of weights in the program, by path
  std::vector<Input> constants_;
  std::vector<Input> user_inputs_;
  TracedProgram traced_;
};

}  // namespace

TracedProgram program_from_trace(const jit::Module& module, StackTraces stack_traces) {
  return Converter(module, std::move(stack_traces)).convert();
}

}  // namespace attend::program
