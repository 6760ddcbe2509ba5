#include "export/program/node_arguments.h"

#include <algorithm>

namespace attend::program {
namespace {

bool is_symbol(const Argument& argument) {
  if (std::holds_alternative<SymbolName>(argument)) return true;
  const auto* list = std::get_if<std::vector<ValueOrSymbol<int64_t>>>(&argument);
  return list != nullptr && std::any_of(list->begin(), list->end(), [](const auto& item) {
           return std::holds_alternative<SymbolName>(item);
         });
}

}  // namespace

bool has_symbols(const Node& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [](const NamedArgument& input) { return is_symbol(input.value); });
}

std::vector<std::string> names_in(const Argument& argument) {
  std::vector<std::string> names;
  if (const auto* tensor = std::get_if<TensorName>(&argument)) names.push_back(tensor->name);
  if (const auto* list = std::get_if<std::vector<TensorName>>(&argument)) {
    for (const auto& item : *list) names.push_back(item.name);
  }
  if (const auto* list = std::get_if<std::vector<OptionalTensor>>(&argument)) {
    for (const auto& item : *list) {
      if (const auto* tensor = std::get_if<TensorName>(&item)) names.push_back(tensor->name);
    }
  }
  return names;
}

}  // namespace attend::program
