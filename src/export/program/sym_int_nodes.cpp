#include "export/program/sym_int_nodes.h"

#include <fmt/format.h>

#include <utility>

namespace attend::program {

std::string unique_name(const ExportedProgram& program, const std::string& base) {
  auto name = base;
  for (int i = 1; program.tensors.count(name) + program.sym_ints.count(name) > 0; ++i) {
    name = fmt::format("{}_{}", base, i);
  }
  return name;
}

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
  SymbolName name{unique_name(program_, "sym_int")};
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
