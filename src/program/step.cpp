#include "program/step.h"

#include "attend/input_error.h"
#include "ops/fast_linear.h"
#include "ops/short_attention.h"
#include "program/higher_order.h"
#include "program/sym_operators.h"
#include "program/target.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/forward_grad.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace attend::program {
namespace {

using c10::IValue;

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

/// Computes an operator without the dispatcher: replaces the arguments on the stack by the output.
/// Returns false, with the arguments unchanged, if it does not support the arguments.
using FastCall = bool (*)(torch::jit::Stack& stack);

bool replace(torch::jit::Stack& stack, std::optional<torch::Tensor> output) {
  if (!output) return false;
  stack.clear();
  stack.emplace_back(std::move(*output));
  return true;
}

/// aten::linear(input, weight, bias)
bool linear(torch::jit::Stack& stack) {
  const auto& bias = stack[2];
  return replace(stack, fast_linear(stack[0].toTensor(), stack[1].toTensor(),
                                    bias.isNone() ? torch::Tensor() : bias.toTensor()));
}

/// `x` (M, K), `weight` (K, N)
std::optional<torch::Tensor> product(const torch::Tensor& x, const torch::Tensor& weight,
                                     const torch::Tensor& bias) {
  if (x.dim() != 2 || weight.dim() != 2) return std::nullopt;
  return fast_linear(x, weight.t(), bias);
}

/// aten::mm(self, mat2)
bool mm(torch::jit::Stack& stack) {
  return replace(stack, product(stack[0].toTensor(), stack[1].toTensor(), {}));
}

/// aten::addmm(self, mat1, mat2, beta, alpha): beta * self + alpha * mat1 @ mat2
bool addmm(torch::jit::Stack& stack) {
  const auto is_one = [](const IValue& factor) {
    return factor.isScalar() && factor.toScalar().equal(1);
  };
  if (!is_one(stack[3]) || !is_one(stack[4])) return false;
  return replace(stack, product(stack[1].toTensor(), stack[2].toTensor(), stack[0].toTensor()));
}

/// aten::scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale,
/// enable_gqa)
bool attention(torch::jit::Stack& stack) {
  if (!stack[3].isNone() || stack[4].toDouble() != 0.0) return false;
  const ScoreOptions options{.scale = stack[6].toOptional<double>()};
  return replace(stack, short_attention(stack[0].toTensor(), stack[1].toTensor(),
                                        stack[2].toTensor(), stack[5].toBool(), options));
}

/// aten::sym_size.int(self, dim)
bool size(torch::jit::Stack& stack) {
  const auto size = stack[0].toTensor().size(stack[1].toInt());
  stack.clear();
  stack.emplace_back(size);
  return true;
}

FastCall find_fast_call(const std::string& target) {
  static const std::map<std::string_view, FastCall> calls{
      {"torch.ops.aten.linear.default", linear},
      {"torch.ops.aten.addmm.default", addmm},
      {"torch.ops.aten.mm.default", mm},
      {"torch.ops.aten.scaled_dot_product_attention.default", attention},
      {"torch.ops.aten.sym_size.int", size}};
  const auto found = calls.find(target);
  return found == calls.end() ? nullptr : found->second;
}

std::function<void(torch::jit::Stack&)> call_of(const c10::OperatorHandle& handle,
                                                const std::string& target) {
  const auto fast = find_fast_call(target);
  if (fast == nullptr) return [handle](auto& stack) { handle.callBoxed(stack); };
  return [handle, fast](auto& stack) {
    if (!fast(stack)) handle.callBoxed(stack);
  };
}

void add_argument(Step& step, const Source& source) {
  const auto index = step.arguments.size();
  step.arguments.push_back(source.constant);
  if (source.compute) {
    step.computed_arguments.push_back({index, source});
  } else if (!source.slots.empty()) {
    step.slot_arguments.push_back(
        {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(source.slots.front())});
  }
}

/// Returns true if operators compute neither gradients nor tangents of forward-mode AD.
bool needs_no_autograd() {
  return !c10::GradMode::is_enabled() && !torch::autograd::ForwardADLevel::try_get_by_idx(0);
}

/// Runs a step and writes its outputs to their slots in `values`. `stack` is memory for any step.
void run_step(const Step& step, Values& values, torch::jit::Stack& stack) {
  stack.assign(step.arguments.begin(), step.arguments.end());
  for (const auto& [index, source] : step.computed_arguments) stack[index] = source.read(values);
  for (const auto& [index, slot, is_last_use] : step.slot_arguments) {
    if (is_last_use) {
      stack[index] = std::move(values[slot]);
    } else {
      stack[index] = values[slot];
    }
  }
  step.call(stack);
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    const auto& [slot, count, is_list] = step.outputs[i];
    if (!is_list) {
      if (count == 1) values[slot] = std::move(stack[i]);
      continue;
    }
    const auto list = stack[i].toListRef();
    if (list.size() != count) {
      throw InputError(
          fmt::format("{}: expected {} tensors, found {}", step.target, count, list.size()));
    }
    std::copy(list.begin(), list.end(), values.begin() + static_cast<std::ptrdiff_t>(slot));
  }
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
      const auto handle = find_operator(node.target, allowed_);
      calls_custom_operators_ |= parse_target(node.target).space != "aten";
      step.call = call_of(handle, node.target);
      use_schema(node, handle.schema(), step);
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

void Compiler::use_schema(const Node& node, const c10::FunctionSchema& schema, Step& step) {
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
      add_argument(step, source(*found->second, argument.type()));
      given.erase(found);
    } else if (argument.default_value()) {
      step.arguments.push_back(*argument.default_value());
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
  const auto compute = find_sym_operator(node.target, node.inputs.size());
  if (compute == nullptr) {
    throw InputError(fmt::format("not supported as a function on SymInts with {} argument{}",
                                 node.inputs.size(), node.inputs.size() == 1 ? "" : "s"));
  }
  if (node.outputs.size() != 1) {
    throw InputError(fmt::format("expected 1 output, found {}", node.outputs.size()));
  }
  for (const auto& input : node.inputs) {
    add_argument(step, source(input.value, c10::AnyType::get()));
  }
  step.call = [compute](auto& stack) { stack = {compute(stack)}; };
}

void Compiler::use_higher_order(const Node& node, Step& step) {
  const auto [run, predicate, operands, graph_outputs] = higher_order_operator(node);
  if (node.graphs.size() != graph_outputs.size()) {
    throw InputError(
        fmt::format("expected {} graphs, found {}", graph_outputs.size(), node.graphs.size()));
  }
  const auto blocks = std::make_shared<std::vector<Block>>();
  for (std::size_t i = 0; i < node.graphs.size(); ++i) {
    const auto& graph = *node.graphs[i];
    with_source(
        fmt::format("graph {}", i), [&, &operands = operands, num_outputs = graph_outputs[i]] {
          check_same_types("inputs", graph.inputs, operands);
          if (num_outputs == 0) {
            check_same_types("outputs", graph.outputs, node.outputs);
          } else if (graph.outputs.size() != num_outputs) {
            throw InputError(
                fmt::format("expected {} outputs, found {}", num_outputs, graph.outputs.size()));
          }
          blocks->push_back(block(graph));
        });
  }
  for (const auto* arguments : {&predicate, &operands}) {
    for (const auto& argument : *arguments) {
      add_argument(step, source(argument, c10::AnyType::get()));
    }
  }
  step.call = [blocks, run = run](auto& stack) { stack = run(*blocks, std::move(stack)); };
}

void Compiler::finish(Block& block, const std::vector<std::size_t>& used_later) const {
  block.num_slots = table_.names().size();
  block.calls_custom_operators = calls_custom_operators_;
  block.set_last_uses(used_later);
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
  compiler.finish(block, {});
  return block;
}

void Compiler::add_output(const Argument& output, Step& step) {
  const auto slot = table_.names().size();
  const auto* list = std::get_if<std::vector<TensorName>>(&output);
  if (list != nullptr) {
    for (const auto& tensor : *list) table_.define(tensor.name);
  } else if (const auto* tensor = std::get_if<TensorName>(&output)) {
    table_.define(tensor->name);
  } else if (const auto* symbol = std::get_if<SymbolName>(&output)) {
    table_.define(symbol->name);
  } else if (!std::holds_alternative<None>(output)) {
    throw InputError("expected a tensor, a list of tensors, a SymInt or None as output");
  }
  step.outputs.push_back({slot, table_.names().size() - slot, list != nullptr});
}

void Block::set_last_uses(const std::vector<std::size_t>& used_later) {
  std::vector<bool> is_used_later(num_slots);
  for (const auto slot : used_later) is_used_later[slot] = true;
  for (const auto& output : outputs) {
    for (const auto slot : output.slots) is_used_later[slot] = true;
  }
  // Returns true for the last use of a slot. The steps are visited from the last to the first.
  const auto is_last_use = [&](std::size_t slot) {
    const bool is_last = !is_used_later[slot];
    is_used_later[slot] = true;
    return is_last;
  };
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const auto free_after_last_use = [&](std::size_t slot) {
      if (is_last_use(slot)) step->last_used.push_back(slot);
    };
    for (const auto& output : step->outputs) {
      for (auto slot = output.slot; slot < output.slot + output.count; ++slot) {
        free_after_last_use(slot);  // of an output that is never used
      }
    }
    auto& arguments = step->slot_arguments;
    std::for_each(arguments.rbegin(), arguments.rend(),
                  [&](auto& argument) { argument.is_last_use = is_last_use(argument.slot); });
    for (const auto& computed : step->computed_arguments) {
      for (const auto slot : computed.source.slots) free_after_last_use(slot);
    }
  }
}

Values Block::run(Values arguments) const {
  Values values(num_slots);
  for (std::size_t i = 0; i < inputs.size(); ++i) values[inputs[i]] = std::move(arguments[i]);
  run_steps(values);
  Values results;
  for (const auto& output : outputs) results.push_back(output.read(values));
  return results;
}

void Block::run_steps(Values& values, const std::function<void(const Step&)>& after) const {
  // Without gradients, the kernels for autograd only cost time.
  std::optional<at::AutoDispatchBelowAutograd> guard;
  if (!calls_custom_operators && needs_no_autograd()) guard.emplace();
  torch::jit::Stack stack;
  for (const auto& step : steps) {
    run_step(step, values, stack);
    if (after) after(step);
    for (const auto slot : step.last_used) values[slot] = IValue();
  }
}

}  // namespace attend::program
