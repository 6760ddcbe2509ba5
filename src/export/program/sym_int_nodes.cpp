#include "export/program/sym_int_nodes.h"

#include <fmt/format.h>

#include <utility>

namespace attend::program {

SymbolName SymIntNodes::size_of(const TensorName& tensor, int64_t dimension, const Size& size) {
  return add("torch.ops.aten.sym_size.int", {{"self", tensor}, {"dim", dimension}},
             size.expression);
}

SymbolName SymIntNodes::call(const char* target, const char* function, const SymbolName& a,
                             const Argument& b) {
  return add(target, {{"a", a}, {"b", b}},
             fmt::format("{}({}, {})", function, text_of(a), text_of(b)));
}

SymbolName SymIntNodes::add(const char* target, std::vector<NamedArgument> inputs,
                            std::string expression) {
  SymbolName name{fmt::format("sym_int_{}", program_.sym_ints.size())};
  while (program_.tensors.count(name.name) > 0) name.name += "_";
  program_.sym_ints[name.name] = {.value = 0, .expression = std::move(expression)};
  nodes_.push_back({.target = target, .inputs = std::move(inputs), .outputs = {name}});
  return name;
}

std::string SymIntNodes::text_of(const Argument& argument) const {
  if (const auto* name = std::get_if<SymbolName>(&argument)) {
    return program_.sym_ints.at(name->name).expression;
  }
  return fmt::format("Integer({})", std::get<int64_t>(argument));
}

}  // namespace attend::program
