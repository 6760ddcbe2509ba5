#include "export/program/step.h"

#include "attend/input_error.h"
#include "export/program/target.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace attend::program {
namespace {

c10::OperatorHandle find_operator(const std::string& target,
                                  const std::set<std::string>& namespaces) {
  const auto parts = parse_target(target);
  if (parts.name.empty()) throw InputError("expected NAMESPACE.NAME.OVERLOAD");
  if (namespaces.count(parts.space) == 0) {
    throw InputError(fmt::format("operators of '{}' are not allowed", parts.space));
  }
  if (parts.qualified_name() == "aten::from_file") {
    throw InputError("operators that touch files are not allowed");
  }
  const auto found = c10::Dispatcher::singleton().findSchema(
      {parts.qualified_name(), parts.dispatcher_overload()});
  if (!found) throw InputError("there is no such operator");
  return *found;
}

/// Dtypes and the like are numbers to operators, which trust them.
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
        fmt::format("the argument '{}' is a number, expected a {}", argument.name(), type->str()));
  }
}

}  // namespace

Step Compiler::compile(const Node& node) {
  Step step;
  step.target = node.target;
  with_source(node.target, [&] {
    if (is_operator(node.target)) {
      step.handle = find_operator(node.target, namespaces_);
      use_schema(node, step);
    } else {
      use_numbers(node, step);
    }
    for (const auto& output : node.outputs) add_result(output, step);
  });
  return step;
}

Source Compiler::source(const Argument& argument, const c10::TypePtr& type) {
  return source_of(argument, type, device_, places_);
}

void Compiler::use_schema(const Node& node, Step& step) {
  const auto& schema = step.handle->schema();
  std::map<std::string, const Argument*> given;
  for (const auto& input : node.inputs) {
    if (!given.emplace(input.name, &input.value).second) {
      throw InputError(fmt::format("the argument '{}' is there twice", input.name));
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
      throw InputError(fmt::format("the argument '{}' is missing", argument.name()));
    }
  }
  if (!given.empty()) {
    throw InputError(fmt::format("there is no argument '{}'", given.begin()->first));
  }
  if (node.outputs.size() != schema.returns().size()) {
    throw InputError(
        fmt::format("{} results, expected {}", node.outputs.size(), schema.returns().size()));
  }
}

void Compiler::use_numbers(const Node& node, Step& step) {
  step.numbers = find_number_operator(node.target, node.inputs.size());
  if (step.numbers == nullptr) throw InputError("there is no such operator");
  if (node.outputs.size() != 1) {
    throw InputError(fmt::format("{} results, expected 1", node.outputs.size()));
  }
  for (const auto& input : node.inputs) {
    step.arguments.push_back(source(input.value, c10::AnyType::get()));
  }
}

void Compiler::add_result(const Argument& output, Step& step) {
  std::vector<std::size_t> places;
  const auto* list = std::get_if<std::vector<TensorName>>(&output);
  if (list != nullptr) {
    for (const auto& tensor : *list) places.push_back(places_.give(tensor.name));
  } else if (const auto* tensor = std::get_if<TensorName>(&output)) {
    places.push_back(places_.give(tensor->name));
  } else if (const auto* symbol = std::get_if<SymbolName>(&output)) {
    places.push_back(places_.give(symbol->name));
  } else if (!std::holds_alternative<Nothing>(output)) {
    throw InputError("a result is neither tensors nor a number");
  }
  step.results.push_back(std::move(places));
  step.lists.push_back(list != nullptr);
}

void run_step(const Step& step, Values& values) {
  torch::jit::Stack stack;
  for (const auto& argument : step.arguments) stack.push_back(argument.read(values));
  if (step.numbers != nullptr) {
    auto result = step.numbers(stack);
    stack.clear();
    stack.push_back(std::move(result));
  } else {
    step.handle->callBoxed(stack);
  }
  for (std::size_t i = 0; i < step.results.size(); ++i) {
    const auto& places = step.results[i];
    if (!step.lists[i]) {
      if (!places.empty()) values[places[0]] = std::move(stack[i]);
      continue;
    }
    const auto list = stack[i].toListRef();
    if (list.size() != places.size()) {
      throw InputError(
          fmt::format("{}: {} tensors, expected {}", step.target, list.size(), places.size()));
    }
    for (std::size_t j = 0; j < list.size(); ++j) {
      auto tensor = list[j];
      values[places[j]].swap(tensor);
    }
  }
}

}  // namespace attend::program
