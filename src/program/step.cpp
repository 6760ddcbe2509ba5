#include "program/step.h"

#include "attend/input_error.h"
#include "ops/fast_linear.h"
#include "program/higher_order.h"
#include "program/target.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace attend::program {
namespace {

c10::OperatorHandle find_operator(const std::string& target, const AllowedOperators& allowed) {
  const auto parts = parse_target(target);
  if (parts.name.empty()) throw InputError("expected torch.ops.NAMESPACE.NAME.OVERLOAD");
  const c10::OperatorName name(parts.qualified_name(), parts.dispatcher_overload());
  const auto found = c10::Dispatcher::singleton().findSchema(name);
  // An operator outside of the namespace aten may be missing because its library is not loaded. For
  // such an operator, `check_allowed` is called first: if the operator is not allowed, the error of
  // `check_allowed` is more useful than the error for a missing operator.
  if (!found && parts.space == "aten") throw InputError("the operator does not exist");
  check_allowed(allowed, name);
  if (!found) {
    throw InputError("the operator does not exist, or the library that defines it is not loaded");
  }
  return *found;
}

/// Throws InputError if an argument is an int where the operator's schema expects an enum. The
/// dispatcher passes enums as ints and does not validate them.
void check_enumeration(const c10::Argument& argument, const Argument& value) {
  auto type = argument.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  const auto kind = type->kind();
  if (kind != c10::TypeKind::ScalarTypeType && kind != c10::TypeKind::LayoutType &&
      kind != c10::TypeKind::MemoryFormatType) {
    return;
  }
  if (std::holds_alternative<int64_t>(value) || std::holds_alternative<SymbolName>(value)) {
    throw InputError(
        fmt::format("argument '{}': expected {}, found an int", argument.name(), type->str()));
  }
}

bool is_tensor(const Argument& argument) {
  return std::holds_alternative<TensorName>(argument);
}

/// Throws InputError unless two lists have the same length, with tensors at the same indices.
void check_same_types(const char* what, const std::vector<Argument>& found,
                      const std::vector<Argument>& expected) {
  if (found.size() != expected.size()) {
    throw InputError(fmt::format("expected {} {}, found {}", expected.size(), what, found.size()));
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (is_tensor(found[i]) == is_tensor(expected[i])) continue;
    const auto kind = [](bool tensor) { return tensor ? "a tensor" : "a number"; };
    throw InputError(fmt::format("{}: expected {} at index {}, found {}", what,
                                 kind(is_tensor(expected[i])), i, kind(is_tensor(found[i]))));
  }
}

/// aten::linear(input, weight, bias)
std::optional<torch::Tensor> linear(const torch::jit::Stack& arguments) {
  const auto& bias = arguments[2];
  return fast_linear(arguments[0].toTensor(), arguments[1].toTensor(),
                     bias.isNone() ? torch::Tensor() : bias.toTensor());
}

/// `x` (M, K), `weight` (K, N)
std::optional<torch::Tensor> product(const torch::Tensor& x, const torch::Tensor& weight,
                                     const torch::Tensor& bias) {
  if (x.dim() != 2 || weight.dim() != 2) return std::nullopt;
  return fast_linear(x, weight.t(), bias);
}

/// aten::mm(self, mat2)
std::optional<torch::Tensor> mm(const torch::jit::Stack& arguments) {
  return product(arguments[0].toTensor(), arguments[1].toTensor(), {});
}

/// aten::addmm(self, mat1, mat2, beta, alpha): beta * self + alpha * mat1 @ mat2
std::optional<torch::Tensor> addmm(const torch::jit::Stack& arguments) {
  const auto is_one = [](const c10::IValue& factor) {
    return factor.isScalar() && factor.toScalar().equal(1);
  };
  if (!is_one(arguments[3]) || !is_one(arguments[4])) return std::nullopt;
  return product(arguments[1].toTensor(), arguments[2].toTensor(), arguments[0].toTensor());
}

FastProduct find_fast_product(const std::string& target) {
  static const std::map<std::string_view, FastProduct> products{
      {"torch.ops.aten.linear.default", linear},
      {"torch.ops.aten.addmm.default", addmm},
      {"torch.ops.aten.mm.default", mm}};
  const auto found = products.find(target);
  return found == products.end() ? nullptr : found->second;
}

}  // namespace

Step Compiler::compile(const Node& node) {
  Step step;
  step.target = node.target;
  with_source(node.target, [&] {
    if (is_higher_order(node.target)) {
      use_higher_order(node, step);
    } else if (!node.graphs.empty()) {
      throw InputError("expected an operator without graphs as arguments");
    } else if (is_operator(node.target)) {
      step.handle = find_operator(node.target, allowed_);
      step.fast_product = find_fast_product(node.target);
      use_schema(node, step);
    } else {
      use_sym_operator(node, step);
    }
    for (const auto& output : node.outputs) add_output(output, step);
  });
  return step;
}

Source Compiler::source(const Argument& argument, const c10::TypePtr& type) {
  return source_of(argument, type, device_, table_);
}

void Compiler::use_schema(const Node& node, Step& step) {
  const auto& schema = step.handle->schema();
  std::map<std::string, const Argument*> given;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const auto& input = node.inputs[i];
    const bool is_positional = input.name.empty() && i < schema.arguments().size();
    const auto& name = is_positional ? schema.arguments()[i].name() : input.name;
    if (!given.emplace(name, &input.value).second) {
      throw InputError(fmt::format("argument '{}' is passed more than once", name));
    }
  }
  for (const auto& argument : schema.arguments()) {
    const auto found = given.find(argument.name());
    if (found != given.end()) {
      check_enumeration(argument, *found->second);
      step.arguments.push_back(source(*found->second, argument.type()));
      given.erase(found);
    } else if (argument.default_value()) {
      step.arguments.push_back(constant_source(*argument.default_value()));
    } else {
      throw InputError(fmt::format("argument '{}' is missing", argument.name()));
    }
  }
  if (!given.empty()) {
    throw InputError(fmt::format("unknown argument '{}'", given.begin()->first));
  }
  if (node.outputs.size() != schema.returns().size()) {
    throw InputError(
        fmt::format("expected {} outputs, found {}", schema.returns().size(), node.outputs.size()));
  }
}

void Compiler::use_sym_operator(const Node& node, Step& step) {
  step.sym_operator = find_sym_operator(node.target, node.inputs.size());
  if (step.sym_operator == nullptr) {
    throw InputError(fmt::format("not supported as a function on SymInts with {} argument{}",
                                 node.inputs.size(), node.inputs.size() == 1 ? "" : "s"));
  }
  if (node.outputs.size() != 1) {
    throw InputError(fmt::format("expected 1 output, found {}", node.outputs.size()));
  }
  for (const auto& input : node.inputs) {
    step.arguments.push_back(source(input.value, c10::AnyType::get()));
  }
}

void Compiler::use_higher_order(const Node& node, Step& step) {
  auto [run, arguments, operands, graph_outputs] = higher_order_operator(node);
  if (node.graphs.size() != graph_outputs.size()) {
    throw InputError(
        fmt::format("expected {} graphs, found {}", graph_outputs.size(), node.graphs.size()));
  }
  for (std::size_t i = 0; i < node.graphs.size(); ++i) {
    const auto& graph = *node.graphs[i];
    with_source(fmt::format("graph {}", i), [&] {
      check_same_types("inputs", graph.inputs, operands);
      if (graph_outputs[i] == 0) {
        check_same_types("outputs", graph.outputs, node.outputs);
      } else if (graph.outputs.size() != graph_outputs[i]) {
        throw InputError(
            fmt::format("expected {} outputs, found {}", graph_outputs[i], graph.outputs.size()));
      }
      step.blocks.push_back(block(graph));
    });
  }
  step.run_blocks = std::move(run);
  arguments.insert(arguments.end(), operands.begin(), operands.end());
  for (const auto& argument : arguments) {
    step.arguments.push_back(source(argument, c10::AnyType::get()));
  }
}

Block Compiler::block(const Graph& graph) const {
  Compiler compiler(device_, allowed_);
  Block block;
  for (const auto& input : graph.inputs) {
    const auto* symbol = std::get_if<SymbolName>(&input);
    if (symbol == nullptr && !is_tensor(input)) {
      throw InputError("expected a tensor or a number as input of the graph");
    }
    block.inputs.push_back(compiler.table_.define(
        symbol != nullptr ? symbol->name : std::get<TensorName>(input).name));
  }
  for (const auto& node : graph.nodes) block.steps.push_back(compiler.compile(node));
  for (const auto& output : graph.outputs) {
    block.outputs.push_back(compiler.source(output, c10::AnyType::get()));
  }
  block.start.resize(compiler.table_.size());
  block.set_last_uses({});
  return block;
}

void Compiler::add_output(const Argument& output, Step& step) {
  std::vector<std::size_t> slots;
  const auto* list = std::get_if<std::vector<TensorName>>(&output);
  if (list != nullptr) {
    for (const auto& tensor : *list) slots.push_back(table_.define(tensor.name));
  } else if (const auto* tensor = std::get_if<TensorName>(&output)) {
    slots.push_back(table_.define(tensor->name));
  } else if (const auto* symbol = std::get_if<SymbolName>(&output)) {
    slots.push_back(table_.define(symbol->name));
  } else if (!std::holds_alternative<None>(output)) {
    throw InputError("expected a tensor, a list of tensors, a SymInt or None as output");
  }
  step.outputs.push_back(std::move(slots));
  step.is_list.push_back(list != nullptr);
}

void run_step(const Step& step, Values& values) {
  torch::jit::Stack stack;
  for (const auto& argument : step.arguments) stack.push_back(argument.read(values));
  std::optional<torch::Tensor> product;
  if (step.fast_product != nullptr) product = step.fast_product(stack);
  if (product) {
    stack.assign(1, std::move(*product));
  } else if (step.run_blocks) {
    stack = step.run_blocks(step.blocks, std::move(stack));
  } else if (step.sym_operator != nullptr) {
    auto result = step.sym_operator(stack);
    stack.clear();
    stack.push_back(std::move(result));
  } else {
    step.handle->callBoxed(stack);
  }
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    const auto& slots = step.outputs[i];
    if (!step.is_list[i]) {
      if (!slots.empty()) values[slots[0]] = std::move(stack[i]);
      continue;
    }
    const auto list = stack[i].toListRef();
    if (list.size() != slots.size()) {
      throw InputError(
          fmt::format("{}: expected {} tensors, found {}", step.target, slots.size(), list.size()));
    }
    for (std::size_t j = 0; j < list.size(); ++j) {
      auto tensor = list[j];
      values[slots[j]].swap(tensor);
    }
  }
}

void Block::set_last_uses(const std::vector<std::size_t>& used_later) {
  constexpr auto kNever = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> last_use(start.size(),
                                    kNever);  // index of the last step that uses each slot
  const auto read = [&](const Source& source, std::size_t step) {
    for (const auto slot : source.slots) last_use[slot] = step;
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const auto& result : steps[i].outputs) {
      for (const auto slot : result) last_use[slot] = i;  // later steps may read the slot
    }
    for (const auto& argument : steps[i].arguments) read(argument, i);
  }
  for (const auto& output : outputs) read(output, kNever);
  for (const auto slot : used_later) last_use[slot] = kNever;
  for (std::size_t slot = 0; slot < last_use.size(); ++slot) {
    if (last_use[slot] != kNever) steps[last_use[slot]].last_used.push_back(slot);
  }
}

Values Block::run(Values arguments) const {
  auto values = start;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[inputs[i]] = std::move(arguments[i]);
  for (const auto& step : steps) {
    run_step(step, values);
    for (const auto slot : step.last_used) values[slot] = IValue();
  }
  Values results;
  for (const auto& output : outputs) results.push_back(output.read(values));
  return results;
}

}  // namespace attend::program
