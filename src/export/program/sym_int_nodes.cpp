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
  return add("torch.ops.aten.sym_size.int", {{"self", tensor}, {"dim", dimension}}, size);
}

SymbolName SymIntNodes::sum(const SymbolName& a, const Argument& b) {
  return add("_operator.add", {{"a", a}, {"b", b}}, size_in(a) + size_in(b));
}

SymbolName SymIntNodes::product(const SymbolName& a, const Argument& b) {
  return add("_operator.mul", {{"a", a}, {"b", b}}, size_in(a) * size_in(b));
}

SymbolName SymIntNodes::quotient(const SymbolName& a, int64_t b) {
  return add("_operator.floordiv", {{"a", a}, {"b", b}}, floor_div(size_in(a), b));
}

SymbolName SymIntNodes::min(const SymbolName& a, const Argument& b) {
  return add("torch.sym_min", {{"a", a}, {"b", b}}, program::min(size_in(a), size_in(b)));
}

SymbolName SymIntNodes::max(const SymbolName& a, const Argument& b) {
  return add("torch.sym_max", {{"a", a}, {"b", b}}, program::max(size_in(a), size_in(b)));
}

SymbolName SymIntNodes::add(const char* target, std::vector<NamedArgument> inputs,
                            const Size& result) {
  SymbolName name{unique_name(program_, "sym_int")};
  program_.sym_ints[name.name] = result;
  nodes_.push_back({.target = target, .inputs = std::move(inputs), .outputs = {name}});
  return name;
}

Size SymIntNodes::size_in(const Argument& argument) const {
  if (const auto* name = std::get_if<SymbolName>(&argument))
    return program_.sym_ints.at(name->name);
  return Size{std::get<int64_t>(argument)};
}

}  // namespace attend::program
